#define __builtin_memcpy memcpy

extern "C" __global__ void __launch_bounds__(32) row_sum(float* p0, const float* p1) {
  float m2[1];
  __shared__ __align__(16) float m0[32];
  float m1[1];
  const int l1 = (int)threadIdx.y;
  const int g0 = (int)blockIdx.x;
  const int v0 = (g0 * 4);
  const int v1 = (l1 + v0);
  m2[0] = 0x0p+0f;
  const int l0 = (int)threadIdx.x;
  const int v2 = (l1 * 8);
  const int v3 = (l0 + v2);
  m1[0] = 0x0p+0f;
  const int v4 = (l1 * 256);
  const int v5 = (g0 * 1024);
  for (int r3 = 0; r3 < 32; ++r3) {
    const int v6 = (r3 * 8);
    const int v7 = (l0 + v6);
    const int v8 = (v5 + v7);
    const int v9 = (v4 + v8);
    const float v10 = p1[v9];
    const float v11 = m1[0];
    const float v12 = (v10 + v11);
    m1[0] = v12;
  }
  const float v13 = m1[0];
  m0[v3] = v13;
  __syncthreads();
  for (int r4 = 0; r4 < 8; ++r4) {
    const int v14 = (r4 + v2);
    const float v15 = m0[v14];
    const float v16 = m2[0];
    const float v17 = (v15 + v16);
    m2[0] = v17;
  }
  const float v18 = m2[0];
  const bool v19 = (l0 == 0);
  if (v19) p0[v1] = v18;
}
