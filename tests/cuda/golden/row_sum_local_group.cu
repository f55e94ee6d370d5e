#define __builtin_memcpy memcpy
struct __align__(16) lathe_f32x4 { float v[4]; };

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
  const int v4 = (l1 * 256);
  const int v5 = (g0 * 1024);
  const int v6 = (v4 + v5);
  const int v7 = (l0 + v6);
  for (int r3 = 0; r3 < 32; ++r3) {
    const float v8 = m1[0];
    const int v9 = (r3 * 8);
    const int v10 = (v9 + v7);
    const float v11 = p1[v10];
    const float v12 = (v8 + v11);
    m1[0] = v12;
  }
  const float v13 = m1[0];
  m0[v3] = v13;
  __syncthreads();
  const int v14 = (v2 + 4);
  const lathe_f32x4 v15 = *(const lathe_f32x4*)(m0 + v14);
  const float v16 = v15.v[3];
  const float v17 = v15.v[1];
  const lathe_f32x4 v18 = *(const lathe_f32x4*)(m0 + v2);
  const float v19 = v18.v[3];
  const float v20 = v18.v[1];
  const float v21 = v18.v[0];
  const float v22 = (v20 + v21);
  const float v23 = v18.v[2];
  const float v24 = (v22 + v23);
  const float v25 = (v19 + v24);
  const float v26 = v15.v[0];
  const float v27 = (v25 + v26);
  const float v28 = (v17 + v27);
  const float v29 = v15.v[2];
  const float v30 = (v28 + v29);
  const float v31 = (v16 + v30);
  const bool v32 = (l0 == 0);
  if (v32) p0[v1] = v31;
}
