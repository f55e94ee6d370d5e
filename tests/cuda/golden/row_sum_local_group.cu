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
  const int v4 = (g0 * 1024);
  const int v5 = (l1 * 256);
  const int v6 = (v4 + v5);
  for (int r3 = 0; r3 < 32; ++r3) {
    const float v7 = m1[0];
    const int v8 = (r3 * 8);
    const int v9 = (v6 + v8);
    const int v10 = (l0 + v9);
    const float v11 = p1[v10];
    const float v12 = (v7 + v11);
    m1[0] = v12;
  }
  const float v13 = m1[0];
  m0[v3] = v13;
  __syncthreads();
  for (int r4 = 0; r4 < 8; ++r4) {
    const float v14 = m2[0];
    const int v15 = (v2 + r4);
    const float v16 = m0[v15];
    const float v17 = (v14 + v16);
    m2[0] = v17;
  }
  const float v18 = m2[0];
  const bool v19 = (l0 == 0);
  if (v19) p0[v1] = v18;
}
