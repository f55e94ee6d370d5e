# Where scripts/setup.sh cuda puts NVIDIA's compilers.
target_compile_definitions(${BACKEND} PRIVATE LATHE_CUDA_ENVIRONMENT="${PROJECT_SOURCE_DIR}/.venv-cuda")
