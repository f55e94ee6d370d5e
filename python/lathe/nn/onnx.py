"""ONNX models: not read yet."""

from lathe._core import NotSupported


class OnnxRunner:
    """Runs an ONNX model. Not read yet: making one says so."""

    def __init__(self, model_path, *ignored, **also_ignored):
        raise NotSupported(
            f"lathe: OnnxRunner: {model_path} cannot be run: ONNX models are not read yet\n"
            "  help: load its weights from a safetensors or torch file, and write the model with lathe.nn"
        )


__all__ = ["OnnxRunner"]
