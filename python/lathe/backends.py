"""`torch.backends`: switches that programs set and that mean nothing here."""

import types

cudnn = types.SimpleNamespace(benchmark=False, deterministic=True, enabled=True, allow_tf32=False)
cuda = types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=False))
mps = types.SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
