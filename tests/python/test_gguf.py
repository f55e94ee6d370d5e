"""GGUF files against the `gguf` package of PyPI: what it packs is read bit for bit, and it reads what Lathe holds."""

import pytest

gguf = pytest.importorskip("gguf")
np = pytest.importorskip("numpy")
from gguf import quants  # noqa: E402

from lathe import nn  # noqa: E402

SCALES = {  # where the half-precision scales of a block lie: they are made finite
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
    "Q5_K": [0, 2], "Q6_K": [208], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0],
    "IQ1_M": [54], "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64], "MXFP4": [],
}  # fmt: skip


@pytest.mark.parametrize("name", SCALES)
def test_every_packed_type_is_read_bit_for_bit(name, tmp_path):
    seed = np.random.SeedSequence().entropy % 2**32
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.random.default_rng(seed).integers(0, 256, (64, size), dtype=np.uint8)
    for at in SCALES[name]:
        blocks[:, at + 1] = 0x30 | (blocks[:, at + 1] & 0x83)
    rows = blocks.reshape(32, 2 * size)
    writer = gguf.GGUFWriter(str(tmp_path / "f.gguf"), "llama")
    writer.add_tensor("w", rows, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    keys, tensors = nn.state.gguf_load(tmp_path / "f.gguf")
    assert keys["general.architecture"] == "llama"
    assert tensors["w"].numpy().tobytes() == quants.dequantize(rows, kind).tobytes(), f"seed {seed}"
