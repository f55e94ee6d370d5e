#define __builtin_memcpy memcpy

extern "C" __global__ void __launch_bounds__(32) row_sum(float* p0, const float* p1) {
  extern __shared__ __align__(16) unsigned char lathe_shared[];
  float* m0 = (float*)(lathe_shared + 0);
  float m1[1];
  const int l1 = (int)threadIdx.y;
  const int g0 = (int)blockIdx.x;
  const int v0 = (g0 * 4);
  const int v1 = (l1 + v0);
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
  const int v14 = (v3 + 4);
  const bool v15 = (l0 < 4);
  const float v16 = (v15 ? m0[v14] : 0);
  const float v17 = (v15 ? m0[v3] : 0);
  const float v18 = (v16 + v17);
  if (v15) m0[v3] = v18;
  __syncthreads();
  const int v19 = (v3 + 2);
  const bool v20 = (l0 < 2);
  const float v21 = (v20 ? m0[v19] : 0);
  const float v22 = (v20 ? m0[v3] : 0);
  const float v23 = (v21 + v22);
  if (v20) m0[v3] = v23;
  __syncthreads();
  const int v24 = (v3 + 1);
  const bool v25 = (l0 < 1);
  const float v26 = (v25 ? m0[v24] : 0);
  const float v27 = (v25 ? m0[v3] : 0);
  const float v28 = (v26 + v27);
  if (v25) m0[v3] = v28;
  __syncthreads();
  const float v29 = m0[v2];
  const bool v30 = (l0 == 0);
  if (v30) p0[v1] = v29;
}
