extern "C" __global__ void __launch_bounds__(128) kernel_0(const float *__restrict__ b0, const float *__restrict__ b1, const float *__restrict__ b2, float *__restrict__ b3, float *__restrict__ b4, long long lo, long long hi)
{
    __shared__ __align__(16) float b5[1084];
    __shared__ __align__(16) float b6[572];
    const unsigned thread = threadIdx.x;
    const int v2 = (int)2ll;
    const float v5 = 0.0f;
    const int v7 = (int)16ll;
    const int v11 = (int)70ll;
    const int v16 = (int)32ll;
    const int v20 = (int)35ll;
    const int v38 = (int)40ll;
    const int v54 = (int)8ll;
    const float v76 = 1.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v1 = (int)(i0);
        const int v3 = stepc_div(v1, v2);
        const int v4 = stepc_rem(v1, v2);
        float r0[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r0[i] = v5;
        float r1[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r1[i] = v5;
        float r2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r2[i] = v5;
        float r3[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r3[i] = v5;
        float r4[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r4[i] = v5;
        #pragma unroll
        for (long long i1 = 0; i1 < 8ll; i1++) {
             {
                const long long i2 = thread;
                const int v6 = (int)(i2);
                const int v8 = stepc_rem(v6, v7);
                const int v9 = stepc_div(v6, v7);
                const int v10 = (int)(8ll * i1 + (long long)v9 + 64ll * (long long)v4);
                const bool v12 = v10 < v11;
                const float v13 = v12 ? b0[40ll * (long long)v10 + (long long)v8] : (float)0;
                const float v14 = v12 ? v13 : v5;
                r1[i1] = v14;
            }
        }
        #pragma unroll
        for (long long i3 = 0; i3 < 4ll; i3++) {
             {
                const long long i4 = thread;
                const int v15 = (int)(i4);
                const int v17 = stepc_rem(v15, v16);
                const int v18 = stepc_div(v15, v16);
                const int v19 = (int)((long long)v17 + 32ll * (long long)v3);
                const bool v21 = v19 < v20;
                const float v22 = v21 ? b1[140ll * i3 + (long long)v19 + 35ll * (long long)v18] : (float)0;
                const float v23 = v21 ? v22 : v5;
                r3[i3] = v23;
            }
        }
        __syncthreads();
        for (long long i5 = 0; i5 < 3ll; i5++) {
            __syncthreads();
            #pragma unroll
            for (long long i6 = 0; i6 < 8ll; i6++) {
                 {
                    const long long i7 = thread;
                    const int v24 = (int)(i7);
                    const int v25 = stepc_rem(v24, v7);
                    const int v26 = stepc_div(v24, v7);
                    const float v27 = r1[i6];
                    b5[8ll * i6 + (long long)v26 + 68ll * (long long)v25] = v27;
                }
            }
            #pragma unroll
            for (long long i8 = 0; i8 < 4ll; i8++) {
                 {
                    const long long i9 = thread;
                    const int v28 = (int)(i9);
                    const int v29 = stepc_rem(v28, v16);
                    const int v30 = stepc_div(v28, v16);
                    const float v31 = r3[i8];
                    b6[144ll * i8 + (long long)v29 + 36ll * (long long)v30] = v31;
                }
            }
            #pragma unroll
            for (long long i10 = 0; i10 < 8ll; i10++) {
                 {
                    const long long i11 = thread;
                    const int v32 = (int)(i11);
                    const int v33 = stepc_rem(v32, v7);
                    const int v34 = stepc_div(v32, v7);
                    const int v35 = (int)(8ll * i10 + (long long)v34 + 64ll * (long long)v4);
                    const bool v36 = v35 < v11;
                    const int v37 = (int)(16ll * i5 + (long long)v33 + 16);
                    const bool v39 = v37 < v38;
                    const bool v40 = v36 && v39;
                    const float v41 = v40 ? b0[40ll * (long long)v35 + (long long)v37] : (float)0;
                    const float v42 = v40 ? v41 : v5;
                    r1[i10] = v42;
                }
            }
            #pragma unroll
            for (long long i12 = 0; i12 < 4ll; i12++) {
                 {
                    const long long i13 = thread;
                    const int v43 = (int)(i13);
                    const int v44 = stepc_rem(v43, v16);
                    const int v45 = stepc_div(v43, v16);
                    const int v46 = (int)((long long)v44 + 32ll * (long long)v3);
                    const bool v47 = v46 < v20;
                    const int v48 = (int)(16ll * i5 + 4ll * i12 + (long long)v45 + 16);
                    const bool v49 = v48 < v38;
                    const bool v50 = v47 && v49;
                    const float v51 = v50 ? b1[(long long)v46 + 35ll * (long long)v48] : (float)0;
                    const float v52 = v50 ? v51 : v5;
                    r3[i12] = v52;
                }
            }
            __syncthreads();
            #pragma unroll
            for (long long i14 = 0; i14 < 16ll; i14++) {
                 {
                    const long long i15 = 0;
                    #pragma unroll
                    for (long long i16 = 0; i16 < 4ll; i16++) {
                         {
                            const long long i17 = thread;
                            const int v53 = (int)(i17);
                            const int v55 = stepc_div(v53, v54);
                            const float v56 = b5[68ll * i14 + i16 + 4ll * (long long)v55];
                            r2[i16] = v56;
                        }
                    }
                }
                 {
                    const long long i18 = 0;
                    #pragma unroll
                    for (long long i19 = 0; i19 < 4ll; i19++) {
                         {
                            const long long i20 = thread;
                            const int v57 = (int)(i20);
                            const int v58 = stepc_rem(v57, v54);
                            const float v59 = b6[36ll * i14 + i19 + 4ll * (long long)v58];
                            r4[i19] = v59;
                        }
                    }
                }
                 {
                    const long long i21 = 0;
                    #pragma unroll
                    for (long long i22 = 0; i22 < 4ll; i22++) {
                         {
                            const long long i23 = 0;
                            #pragma unroll
                            for (long long i24 = 0; i24 < 4ll; i24++) {
                                 {
                                    const long long i25 = thread;
                                    const float v60 = r0[4ll * i22 + i24];
                                    const float v61 = r2[i22];
                                    const float v62 = r4[i24];
                                    const float v63 = fmaf(v61, v62, v60);
                                    r0[4ll * i22 + i24] = v63;
                                }
                            }
                        }
                    }
                }
            }
        }
         {
            const long long i26 = 0;
            #pragma unroll
            for (long long i27 = 0; i27 < 4ll; i27++) {
                 {
                    const long long i28 = 0;
                    #pragma unroll
                    for (long long i29 = 0; i29 < 4ll; i29++) {
                         {
                            const long long i30 = thread;
                            const float v64 = r0[4ll * i27 + i29];
                            const int v65 = (int)(i30);
                            const int v66 = stepc_div(v65, v54);
                            const int v67 = stepc_rem(v65, v54);
                            const int v68 = (int)(i27 + 4ll * (long long)v66 + 64ll * (long long)v4);
                            const bool v69 = v68 < v11;
                            const int v70 = (int)(i29 + 4ll * (long long)v67 + 32ll * (long long)v3);
                            const bool v71 = v70 < v20;
                            const bool v72 = v69 && v71;
                            const float v73 = v72 ? b2[(long long)v70] : (float)0;
                            const float v74 = v64 + v73;
                            const float v75 = tanhf(v74);
                            const float v77 = v76 - v75;
                            const float v78 = v77 * v75;
                            const float v79 = v77 + v78;
                            if (v72) b3[(long long)v70 + 35ll * (long long)v68] = v75;
                            if (v72) b4[(long long)v70 + 35ll * (long long)v68] = v79;
                        }
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_1(const float *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b2, long long lo, long long hi)
{
    __shared__ double folded[8];
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    float r0[1];
    for (int i = 0; i < 1; i++) r0[i] = v1;
    for (long long i0 = thread; i0 < 2450ll; i0 += 256) {
        const float v2 = b0[i0];
        r0[0] = r0[0] + v2;
    }
    const float v3 = stepc_fold<256>(folded, r0[0], [](float x, float y) -> float { return x + y; });
    const float v4 = b1[0];
    const float v5 = v3 + v4;
    __syncthreads();
    if (thread == 0) b2[0] = v5;
}

extern "C" __global__ void __launch_bounds__(128) kernel_2(const unsigned short *__restrict__ b0, const unsigned short *__restrict__ b1, float *__restrict__ b2, long long lo, long long hi)
{
    __shared__ __align__(16) unsigned short b3[2552];
    __shared__ __align__(16) unsigned short b4[1272];
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    const float v2 = 0.0f;
    const unsigned v3 = (unsigned)0ll;
    const int v5 = (int)32ll;
    const int v16 = (int)24ll;
    const int v34 = (int)128ll;
    const int v51 = (int)4ll;
    const int v53 = (int)8ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r0[i] = v1;
        float r1[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r1[i] = v2;
        unsigned r2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r2[i] = v3;
        float r3[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r3[i] = v2;
        unsigned r4[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r4[i] = v3;
        #pragma unroll
        for (long long i1 = 0; i1 < 16ll; i1++) {
             {
                const long long i2 = thread;
                const int v4 = (int)(i2);
                const int v6 = stepc_rem(v4, v5);
                const int v7 = stepc_div(v4, v5);
                const int v8 = (int)(4ll * i1 + (long long)v7);
                const bool v9 = v8 < v5;
                const float v10 = v9 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v8 + (long long)v6]) : (float)0;
                const float v11 = v9 ? v10 : v2;
                r1[i1] = v11;
            }
        }
        #pragma unroll
        for (long long i3 = 0; i3 < 8ll; i3++) {
             {
                const long long i4 = thread;
                const int v12 = (int)(i4);
                const int v13 = stepc_rem(v12, v5);
                const int v14 = stepc_div(v12, v5);
                const int v15 = (int)((long long)v13);
                const bool v17 = v15 < v16;
                const float v18 = v17 ? stepc_bf16_value(b1[3072ll * i0 + 96ll * i3 + (long long)v15 + 24ll * (long long)v14]) : (float)0;
                const float v19 = v17 ? v18 : v2;
                r3[i3] = v19;
            }
        }
        __syncthreads();
        for (long long i5 = 0; i5 < 4ll; i5++) {
            __syncthreads();
            #pragma unroll
            for (long long i6 = 0; i6 < 16ll; i6++) {
                 {
                    const long long i7 = thread;
                    const int v20 = (int)(i7);
                    const int v21 = stepc_rem(v20, v5);
                    const int v22 = stepc_div(v20, v5);
                    const float v23 = r1[i6];
                    b3[160ll * i6 + 40ll * (long long)v22 + (long long)v21] = stepc_bf16_bits(v23);
                }
            }
            #pragma unroll
            for (long long i8 = 0; i8 < 8ll; i8++) {
                 {
                    const long long i9 = thread;
                    const int v24 = (int)(i9);
                    const int v25 = stepc_rem(v24, v5);
                    const int v26 = stepc_div(v24, v5);
                    const float v27 = r3[i8];
                    b4[4ll * i8 + 40ll * (long long)v25 + (long long)v26] = stepc_bf16_bits(v27);
                }
            }
            #pragma unroll
            for (long long i10 = 0; i10 < 16ll; i10++) {
                 {
                    const long long i11 = thread;
                    const int v28 = (int)(i11);
                    const int v29 = stepc_rem(v28, v5);
                    const int v30 = stepc_div(v28, v5);
                    const int v31 = (int)(4ll * i10 + (long long)v30);
                    const bool v32 = v31 < v5;
                    const int v33 = (int)(32ll * i5 + (long long)v29 + 32);
                    const bool v35 = v33 < v34;
                    const bool v36 = v32 && v35;
                    const float v37 = v36 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v31 + (long long)v33]) : (float)0;
                    const float v38 = v36 ? v37 : v2;
                    r1[i10] = v38;
                }
            }
            #pragma unroll
            for (long long i12 = 0; i12 < 8ll; i12++) {
                 {
                    const long long i13 = thread;
                    const int v39 = (int)(i13);
                    const int v40 = stepc_rem(v39, v5);
                    const int v41 = stepc_div(v39, v5);
                    const int v42 = (int)((long long)v40);
                    const bool v43 = v42 < v16;
                    const int v44 = (int)(32ll * i5 + 4ll * i12 + (long long)v41 + 32);
                    const bool v45 = v44 < v34;
                    const bool v46 = v43 && v45;
                    const float v47 = v46 ? stepc_bf16_value(b1[3072ll * i0 + (long long)v42 + 24ll * (long long)v44]) : (float)0;
                    const float v48 = v46 ? v47 : v2;
                    r3[i12] = v48;
                }
            }
            __syncthreads();
            #pragma unroll
            for (long long i14 = 0; i14 < 2ll; i14++) {
                 {
                    const long long i15 = 0;
                    #pragma unroll
                    for (long long i16 = 0; i16 < 2ll; i16++) {
                        #pragma unroll
                        for (long long i17 = 0; i17 < 2ll; i17++) {
                             {
                                const long long i18 = thread;
                                const int v49 = (int)(i18);
                                const int v50 = stepc_div(v49, v5);
                                const int v52 = stepc_div(v49, v51);
                                const int v54 = stepc_rem(v52, v53);
                                const int v55 = stepc_rem(v49, v51);
                                const unsigned v56 = *(const unsigned *)&b3[16ll * i14 + 8ll * i16 + 320ll * i17 + 640ll * (long long)v50 + 40ll * (long long)v54 + 2ll * (long long)v55];
                                r2[2ll * i16 + i17] = v56;
                            }
                        }
                    }
                }
                #pragma unroll
                for (long long i19 = 0; i19 < 4ll; i19++) {
                    #pragma unroll
                    for (long long i20 = 0; i20 < 2ll; i20++) {
                         {
                            const long long i21 = 0;
                             {
                                const long long i22 = thread;
                                const int v57 = (int)(i22);
                                const int v58 = stepc_div(v57, v51);
                                const int v59 = stepc_rem(v58, v53);
                                const int v60 = stepc_rem(v57, v51);
                                const unsigned v61 = *(const unsigned *)&b4[16ll * i14 + 320ll * i19 + 8ll * i20 + 40ll * (long long)v59 + 2ll * (long long)v60];
                                r4[2ll * i19 + i20] = v61;
                            }
                        }
                    }
                }
                stepc_matrix_bf16<1, 4>(r0, r2, r4);
            }
        }
         {
            const long long i23 = 0;
            #pragma unroll
            for (long long i24 = 0; i24 < 2ll; i24++) {
                #pragma unroll
                for (long long i25 = 0; i25 < 4ll; i25++) {
                    #pragma unroll
                    for (long long i26 = 0; i26 < 2ll; i26++) {
                         {
                            const long long i27 = thread;
                            const float v62 = r0[2ll * i24 + 4ll * i25 + i26];
                            const int v63 = (int)(i27);
                            const int v64 = stepc_div(v63, v5);
                            const int v65 = stepc_div(v63, v51);
                            const int v66 = stepc_rem(v65, v53);
                            const int v67 = stepc_rem(v63, v51);
                            const int v68 = (int)(8ll * i24 + 16ll * (long long)v64 + (long long)v66);
                            const bool v69 = v68 < v5;
                            const int v70 = (int)(8ll * i25 + i26 + 2ll * (long long)v67);
                            const bool v71 = v70 < v16;
                            const bool v72 = v69 && v71;
                            if (v72) b2[768ll * i0 + (long long)v70 + 24ll * (long long)v68] = v62;
                        }
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) kernel_3(const float *__restrict__ b0, float *__restrict__ b1, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[1];
        for (int i = 0; i < 1; i++) r0[i] = v1;
        for (long long i1 = 0; i1 < 4ll; i1++) {
             {
                const long long i2 = 0;
                 {
                    const long long i3 = thread;
                    const float v2 = b0[128ll * i0 + 768ll * i1 + i3];
                    r0[0] = r0[0] + v2;
                }
            }
        }
         {
            const long long i4 = 0;
             {
                const long long i5 = thread;
                const float v3 = r0[0];
                b1[128ll * i0 + i5] = v3;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_4(const float *__restrict__ b0, float *__restrict__ b1, long long lo, long long hi)
{
    __shared__ double folded[8];
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    float r0[1];
    for (int i = 0; i < 1; i++) r0[i] = v1;
    #pragma unroll
    for (long long i0 = thread; i0 < 768ll; i0 += 256) {
        const float v2 = b0[i0];
        const float v3 = stepc_bf16_round((float)v2);
        const float v4 = (float)v3;
        r0[0] = r0[0] + v4;
    }
    const float v5 = stepc_fold<256>(folded, r0[0], [](float x, float y) -> float { return x + y; });
    if (thread == 0) b1[0] = v5;
}

extern "C" __global__ void __launch_bounds__(128) kernel_5(const unsigned short *__restrict__ b0, const unsigned short *b1, const double *__restrict__ b2, unsigned short *b3, long long lo, long long hi, unsigned *flag)
{
    __shared__ __align__(16) unsigned short b4[2552];
    __shared__ __align__(16) unsigned short b5[1272];
    const unsigned thread = threadIdx.x;
    bool bad = false;
    const float v1 = 0.0f;
    const float v2 = 0.0f;
    const unsigned v3 = (unsigned)0ll;
    const int v5 = (int)64ll;
    const int v10 = (int)32ll;
    const int v14 = (int)24ll;
    const float v16 = 1.0f;
    const int v28 = (int)4ll;
    const int v30 = (int)8ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r0[i] = v1;
        float r1[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r1[i] = v2;
        unsigned r2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r2[i] = v3;
        float r3[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r3[i] = v2;
        unsigned r4[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r4[i] = v3;
        #pragma unroll
        for (long long i1 = 0; i1 < 16ll; i1++) {
             {
                const long long i2 = thread;
                const int v4 = (int)(i2);
                const int v6 = stepc_rem(v4, v5);
                const int v7 = stepc_div(v4, v5);
                const float v8 = stepc_bf16_value(b0[64ll * i0 + 1024ll * i1 + (long long)v6 + 512ll * (long long)v7]);
                r1[i1] = v8;
            }
        }
        #pragma unroll
        for (long long i3 = 0; i3 < 8ll; i3++) {
             {
                const long long i4 = thread;
                const int v9 = (int)(i4);
                const int v11 = stepc_rem(v9, v10);
                const int v12 = stepc_div(v9, v10);
                const int v13 = (int)((long long)v11);
                const bool v15 = v13 < v14;
                const float v17 = v15 ? v16 : v2;
                r3[i3] = v17;
            }
        }
         {
            const long long i5 = 0;
            __syncthreads();
            #pragma unroll
            for (long long i6 = 0; i6 < 16ll; i6++) {
                 {
                    const long long i7 = thread;
                    const int v18 = (int)(i7);
                    const int v19 = stepc_rem(v18, v5);
                    const int v20 = stepc_div(v18, v5);
                    const float v21 = r1[i6];
                    b4[2ll * i6 + 40ll * (long long)v19 + (long long)v20] = stepc_bf16_bits(v21);
                }
            }
            #pragma unroll
            for (long long i8 = 0; i8 < 8ll; i8++) {
                 {
                    const long long i9 = thread;
                    const int v22 = (int)(i9);
                    const int v23 = stepc_rem(v22, v10);
                    const int v24 = stepc_div(v22, v10);
                    const float v25 = r3[i8];
                    b5[4ll * i8 + 40ll * (long long)v23 + (long long)v24] = stepc_bf16_bits(v25);
                }
            }
            __syncthreads();
            #pragma unroll
            for (long long i10 = 0; i10 < 2ll; i10++) {
                 {
                    const long long i11 = 0;
                    #pragma unroll
                    for (long long i12 = 0; i12 < 2ll; i12++) {
                        #pragma unroll
                        for (long long i13 = 0; i13 < 2ll; i13++) {
                             {
                                const long long i14 = thread;
                                const int v26 = (int)(i14);
                                const int v27 = stepc_div(v26, v10);
                                const int v29 = stepc_div(v26, v28);
                                const int v31 = stepc_rem(v29, v30);
                                const int v32 = stepc_rem(v26, v28);
                                const unsigned v33 = *(const unsigned *)&b4[16ll * i10 + 8ll * i12 + 320ll * i13 + 640ll * (long long)v27 + 40ll * (long long)v31 + 2ll * (long long)v32];
                                r2[2ll * i12 + i13] = v33;
                            }
                        }
                    }
                }
                #pragma unroll
                for (long long i15 = 0; i15 < 4ll; i15++) {
                    #pragma unroll
                    for (long long i16 = 0; i16 < 2ll; i16++) {
                         {
                            const long long i17 = 0;
                             {
                                const long long i18 = thread;
                                const int v34 = (int)(i18);
                                const int v35 = stepc_div(v34, v28);
                                const int v36 = stepc_rem(v35, v30);
                                const int v37 = stepc_rem(v34, v28);
                                const unsigned v38 = *(const unsigned *)&b5[16ll * i10 + 320ll * i15 + 8ll * i16 + 40ll * (long long)v36 + 2ll * (long long)v37];
                                r4[2ll * i15 + i16] = v38;
                            }
                        }
                    }
                }
                stepc_matrix_bf16<1, 4>(r0, r2, r4);
            }
        }
         {
            const long long i19 = 0;
            #pragma unroll
            for (long long i20 = 0; i20 < 2ll; i20++) {
                #pragma unroll
                for (long long i21 = 0; i21 < 4ll; i21++) {
                    #pragma unroll
                    for (long long i22 = 0; i22 < 2ll; i22++) {
                         {
                            const long long i23 = thread;
                            const float v39 = r0[2ll * i20 + 4ll * i21 + i22];
                            const int v40 = (int)(i23);
                            const int v41 = stepc_div(v40, v10);
                            const int v42 = stepc_div(v40, v28);
                            const int v43 = stepc_rem(v42, v30);
                            const int v44 = stepc_rem(v40, v28);
                            const int v45 = (int)(8ll * i21 + i22 + 2ll * (long long)v44);
                            const bool v46 = v45 < v14;
                            const float v47 = stepc_bf16_round((float)v39);
                            const float v48 = v46 ? stepc_bf16_value(b1[1536ll * i0 + 192ll * i20 + (long long)v45 + 384ll * (long long)v41 + 24ll * (long long)v43]) : (float)0;
                            const double v49 = v46 ? b2[0] : (double)0;
                            const double v50 = -v49;
                            const float v51 = stepc_bf16_round((float)v50);
                            const float v52 = stepc_bf16_round(v51 * v47);
                            const float v53 = stepc_bf16_round(v48 + v52);
                            if (v46) { b3[1536ll * i0 + 192ll * i20 + (long long)v45 + 384ll * (long long)v41 + 24ll * (long long)v43] = stepc_bf16_bits(v53); bad |= stepc_not_finite(v53); }
                        }
                    }
                }
            }
        }
    }
    if (bad) *flag |= 1;
}

extern "C" __global__ void __launch_bounds__(64) kernel_6(const float *b0, const double *__restrict__ b1, const float *__restrict__ b2, float *b3, long long lo, long long hi, unsigned *flag)
{
    const unsigned thread = threadIdx.x;
    bool bad = false;
    const float v1 = 0.0f;
    float r0[1];
    for (int i = 0; i < 1; i++) r0[i] = v1;
    #pragma unroll 8
    for (long long i0 = 0; i0 < 70ll; i0++) {
         {
            const long long i1 = 0;
            if (thread < 35) {
                const long long i2 = thread;
                const float v2 = b2[35ll * i0 + i2];
                r0[0] = r0[0] + v2;
            }
        }
    }
    const double v5 = b1[0];
    const double v6 = -v5;
    const float v7 = (float)v6;
     {
        const long long i3 = 0;
        if (thread < 35) {
            const long long i4 = thread;
            const float v3 = r0[0];
            const float v4 = b0[i4];
            const float v8 = v7 * v3;
            const float v9 = v4 + v8;
            { b3[i4] = v9; bad |= stepc_not_finite(v9); }
        }
    }
    if (bad) *flag |= 1;
}

extern "C" __global__ void __launch_bounds__(128) kernel_7(const float *__restrict__ b0, const float *b1, const double *__restrict__ b2, const float *__restrict__ b3, float *b4, long long lo, long long hi, unsigned *flag)
{
    __shared__ __align__(16) float b5[1084];
    __shared__ __align__(16) float b6[572];
    const unsigned thread = threadIdx.x;
    bool bad = false;
    const float v1 = 0.0f;
    const int v3 = (int)64ll;
    const int v7 = (int)40ll;
    const int v12 = (int)32ll;
    const int v16 = (int)35ll;
    const int v34 = (int)70ll;
    const int v50 = (int)8ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r0[i] = v1;
        float r1[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r1[i] = v1;
        float r2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r2[i] = v1;
        float r3[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r3[i] = v1;
        float r4[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r4[i] = v1;
        #pragma unroll
        for (long long i1 = 0; i1 < 8ll; i1++) {
             {
                const long long i2 = thread;
                const int v2 = (int)(i2);
                const int v4 = stepc_rem(v2, v3);
                const int v5 = stepc_div(v2, v3);
                const int v6 = (int)((long long)v4);
                const bool v8 = v6 < v7;
                const float v9 = v8 ? b0[80ll * i1 + (long long)v6 + 40ll * (long long)v5] : (float)0;
                const float v10 = v8 ? v9 : v1;
                r1[i1] = v10;
            }
        }
        #pragma unroll
        for (long long i3 = 0; i3 < 4ll; i3++) {
             {
                const long long i4 = thread;
                const int v11 = (int)(i4);
                const int v13 = stepc_rem(v11, v12);
                const int v14 = stepc_div(v11, v12);
                const int v15 = (int)(32ll * i0 + (long long)v13);
                const bool v17 = v15 < v16;
                const float v18 = v17 ? b3[140ll * i3 + (long long)v15 + 35ll * (long long)v14] : (float)0;
                const float v19 = v17 ? v18 : v1;
                r3[i3] = v19;
            }
        }
        __syncthreads();
        for (long long i5 = 0; i5 < 5ll; i5++) {
            __syncthreads();
            #pragma unroll
            for (long long i6 = 0; i6 < 8ll; i6++) {
                 {
                    const long long i7 = thread;
                    const int v20 = (int)(i7);
                    const int v21 = stepc_rem(v20, v3);
                    const int v22 = stepc_div(v20, v3);
                    const float v23 = r1[i6];
                    b5[136ll * i6 + (long long)v21 + 68ll * (long long)v22] = v23;
                }
            }
            #pragma unroll
            for (long long i8 = 0; i8 < 4ll; i8++) {
                 {
                    const long long i9 = thread;
                    const int v24 = (int)(i9);
                    const int v25 = stepc_rem(v24, v12);
                    const int v26 = stepc_div(v24, v12);
                    const float v27 = r3[i8];
                    b6[144ll * i8 + (long long)v25 + 36ll * (long long)v26] = v27;
                }
            }
            #pragma unroll
            for (long long i10 = 0; i10 < 8ll; i10++) {
                 {
                    const long long i11 = thread;
                    const int v28 = (int)(i11);
                    const int v29 = stepc_rem(v28, v3);
                    const int v30 = stepc_div(v28, v3);
                    const int v31 = (int)((long long)v29);
                    const bool v32 = v31 < v7;
                    const int v33 = (int)(16ll * i5 + 2ll * i10 + (long long)v30 + 16);
                    const bool v35 = v33 < v34;
                    const bool v36 = v32 && v35;
                    const float v37 = v36 ? b0[(long long)v31 + 40ll * (long long)v33] : (float)0;
                    const float v38 = v36 ? v37 : v1;
                    r1[i10] = v38;
                }
            }
            #pragma unroll
            for (long long i12 = 0; i12 < 4ll; i12++) {
                 {
                    const long long i13 = thread;
                    const int v39 = (int)(i13);
                    const int v40 = stepc_rem(v39, v12);
                    const int v41 = stepc_div(v39, v12);
                    const int v42 = (int)(32ll * i0 + (long long)v40);
                    const bool v43 = v42 < v16;
                    const int v44 = (int)(16ll * i5 + 4ll * i12 + (long long)v41 + 16);
                    const bool v45 = v44 < v34;
                    const bool v46 = v43 && v45;
                    const float v47 = v46 ? b3[(long long)v42 + 35ll * (long long)v44] : (float)0;
                    const float v48 = v46 ? v47 : v1;
                    r3[i12] = v48;
                }
            }
            __syncthreads();
            #pragma unroll
            for (long long i14 = 0; i14 < 16ll; i14++) {
                 {
                    const long long i15 = 0;
                    #pragma unroll
                    for (long long i16 = 0; i16 < 4ll; i16++) {
                         {
                            const long long i17 = thread;
                            const int v49 = (int)(i17);
                            const int v51 = stepc_div(v49, v50);
                            const float v52 = b5[68ll * i14 + i16 + 4ll * (long long)v51];
                            r2[i16] = v52;
                        }
                    }
                }
                 {
                    const long long i18 = 0;
                    #pragma unroll
                    for (long long i19 = 0; i19 < 4ll; i19++) {
                         {
                            const long long i20 = thread;
                            const int v53 = (int)(i20);
                            const int v54 = stepc_rem(v53, v50);
                            const float v55 = b6[36ll * i14 + i19 + 4ll * (long long)v54];
                            r4[i19] = v55;
                        }
                    }
                }
                 {
                    const long long i21 = 0;
                    #pragma unroll
                    for (long long i22 = 0; i22 < 4ll; i22++) {
                         {
                            const long long i23 = 0;
                            #pragma unroll
                            for (long long i24 = 0; i24 < 4ll; i24++) {
                                 {
                                    const long long i25 = thread;
                                    const float v56 = r0[4ll * i22 + i24];
                                    const float v57 = r2[i22];
                                    const float v58 = r4[i24];
                                    const float v59 = fmaf(v57, v58, v56);
                                    r0[4ll * i22 + i24] = v59;
                                }
                            }
                        }
                    }
                }
            }
        }
         {
            const long long i26 = 0;
            #pragma unroll
            for (long long i27 = 0; i27 < 4ll; i27++) {
                 {
                    const long long i28 = 0;
                    #pragma unroll
                    for (long long i29 = 0; i29 < 4ll; i29++) {
                         {
                            const long long i30 = thread;
                            const float v60 = r0[4ll * i27 + i29];
                            const int v61 = (int)(i30);
                            const int v62 = stepc_div(v61, v50);
                            const int v63 = stepc_rem(v61, v50);
                            const int v64 = (int)(i27 + 4ll * (long long)v62);
                            const bool v65 = v64 < v7;
                            const int v66 = (int)(32ll * i0 + i29 + 4ll * (long long)v63);
                            const bool v67 = v66 < v16;
                            const bool v68 = v65 && v67;
                            const float v69 = v68 ? b1[(long long)v66 + 35ll * (long long)v64] : (float)0;
                            const double v70 = v68 ? b2[0] : (double)0;
                            const double v71 = -v70;
                            const float v72 = (float)v71;
                            const float v73 = v72 * v60;
                            const float v74 = v69 + v73;
                            if (v68) { b4[(long long)v66 + 35ll * (long long)v64] = v74; bad |= stepc_not_finite(v74); }
                        }
                    }
                }
            }
        }
    }
    if (bad) *flag |= 1;
}

extern "C" __global__ void __launch_bounds__(32) kernel_8(const int *b0, int *b1, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const int v1 = b0[0];
    const int v2 = (int)2147483647ll;
    const bool v3 = v1 < v2;
    const int v4 = (int)1ll;
    const int v5 = (int)((unsigned)v1 + (unsigned)v4);
    const int v6 = v3 ? v5 : v2;
    __syncthreads();
    if (thread == 0) b1[0] = v6;
}

extern "C" __global__ void __launch_bounds__(256) kernel_9(const __grid_constant__ stepc_table<7> table)
{
    const stepc_member member = stepc_find_member(table.word, 3);
    float *const b0 = (float *)stepc_global(table.word[member.at + 0]);
    const long long lo = 0, hi = member.extent;
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    const bool wide = lo % 4 == 0 && stepc_is_aligned<4>(b0);
    for (long long at = lo + ((long long)member.block * 256 + thread) * 4; at < hi; at += (long long)member.blocks * 1024) {
        const long long i0 = at;
        const int count = hi - at < 4 ? (int)(hi - at) : 4;
        const bool whole = wide && count == 4;
        stepc_few<float, 4> out0;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const long long i0 = at + (k < count ? k : count - 1);
            out0.item[k] = v1;
        }
        stepc_store_few(b0 + (i0), out0, count, whole);
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_10(unsigned short *__restrict__ b0, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    const bool wide = lo % 8 == 0 && stepc_is_aligned<8>(b0);
    for (long long at = lo + ((long long)blockIdx.x * 256 + thread) * 8; at < hi; at += (long long)gridDim.x * 2048) {
        const long long i0 = at;
        const int count = hi - at < 8 ? (int)(hi - at) : 8;
        const bool whole = wide && count == 8;
        stepc_few<unsigned short, 8> out0;
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            const long long i0 = at + (k < count ? k : count - 1);
            out0.item[k] = stepc_bf16_bits(v1);
        }
        stepc_store_few(b0 + (i0), out0, count, whole);
    }
}

extern "C" __global__ void __launch_bounds__(32) kernel_11(int *__restrict__ b0, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const int v1 = (int)0ll;
    if (thread == 0) b0[0] = v1;
}

extern "C" __global__ void __launch_bounds__(128) kernel_12(const float *__restrict__ b0, const float *__restrict__ b1, float *__restrict__ b2, long long lo, long long hi)
{
    __shared__ __align__(16) float b3[1084];
    __shared__ __align__(16) float b4[572];
    const unsigned thread = threadIdx.x;
    const int v2 = (int)2ll;
    const float v5 = 0.0f;
    const int v7 = (int)16ll;
    const int v11 = (int)70ll;
    const int v16 = (int)32ll;
    const int v20 = (int)35ll;
    const int v38 = (int)40ll;
    const int v54 = (int)8ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v1 = (int)(i0);
        const int v3 = stepc_div(v1, v2);
        const int v4 = stepc_rem(v1, v2);
        float r0[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r0[i] = v5;
        float r1[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r1[i] = v5;
        float r2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r2[i] = v5;
        float r3[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r3[i] = v5;
        float r4[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r4[i] = v5;
        #pragma unroll
        for (long long i1 = 0; i1 < 8ll; i1++) {
             {
                const long long i2 = thread;
                const int v6 = (int)(i2);
                const int v8 = stepc_rem(v6, v7);
                const int v9 = stepc_div(v6, v7);
                const int v10 = (int)(8ll * i1 + (long long)v9 + 64ll * (long long)v4);
                const bool v12 = v10 < v11;
                const float v13 = v12 ? b0[40ll * (long long)v10 + (long long)v8] : (float)0;
                const float v14 = v12 ? v13 : v5;
                r1[i1] = v14;
            }
        }
        #pragma unroll
        for (long long i3 = 0; i3 < 4ll; i3++) {
             {
                const long long i4 = thread;
                const int v15 = (int)(i4);
                const int v17 = stepc_rem(v15, v16);
                const int v18 = stepc_div(v15, v16);
                const int v19 = (int)((long long)v17 + 32ll * (long long)v3);
                const bool v21 = v19 < v20;
                const float v22 = v21 ? b1[140ll * i3 + (long long)v19 + 35ll * (long long)v18] : (float)0;
                const float v23 = v21 ? v22 : v5;
                r3[i3] = v23;
            }
        }
        __syncthreads();
        for (long long i5 = 0; i5 < 3ll; i5++) {
            __syncthreads();
            #pragma unroll
            for (long long i6 = 0; i6 < 8ll; i6++) {
                 {
                    const long long i7 = thread;
                    const int v24 = (int)(i7);
                    const int v25 = stepc_rem(v24, v7);
                    const int v26 = stepc_div(v24, v7);
                    const float v27 = r1[i6];
                    b3[8ll * i6 + (long long)v26 + 68ll * (long long)v25] = v27;
                }
            }
            #pragma unroll
            for (long long i8 = 0; i8 < 4ll; i8++) {
                 {
                    const long long i9 = thread;
                    const int v28 = (int)(i9);
                    const int v29 = stepc_rem(v28, v16);
                    const int v30 = stepc_div(v28, v16);
                    const float v31 = r3[i8];
                    b4[144ll * i8 + (long long)v29 + 36ll * (long long)v30] = v31;
                }
            }
            #pragma unroll
            for (long long i10 = 0; i10 < 8ll; i10++) {
                 {
                    const long long i11 = thread;
                    const int v32 = (int)(i11);
                    const int v33 = stepc_rem(v32, v7);
                    const int v34 = stepc_div(v32, v7);
                    const int v35 = (int)(8ll * i10 + (long long)v34 + 64ll * (long long)v4);
                    const bool v36 = v35 < v11;
                    const int v37 = (int)(16ll * i5 + (long long)v33 + 16);
                    const bool v39 = v37 < v38;
                    const bool v40 = v36 && v39;
                    const float v41 = v40 ? b0[40ll * (long long)v35 + (long long)v37] : (float)0;
                    const float v42 = v40 ? v41 : v5;
                    r1[i10] = v42;
                }
            }
            #pragma unroll
            for (long long i12 = 0; i12 < 4ll; i12++) {
                 {
                    const long long i13 = thread;
                    const int v43 = (int)(i13);
                    const int v44 = stepc_rem(v43, v16);
                    const int v45 = stepc_div(v43, v16);
                    const int v46 = (int)((long long)v44 + 32ll * (long long)v3);
                    const bool v47 = v46 < v20;
                    const int v48 = (int)(16ll * i5 + 4ll * i12 + (long long)v45 + 16);
                    const bool v49 = v48 < v38;
                    const bool v50 = v47 && v49;
                    const float v51 = v50 ? b1[(long long)v46 + 35ll * (long long)v48] : (float)0;
                    const float v52 = v50 ? v51 : v5;
                    r3[i12] = v52;
                }
            }
            __syncthreads();
            #pragma unroll
            for (long long i14 = 0; i14 < 16ll; i14++) {
                 {
                    const long long i15 = 0;
                    #pragma unroll
                    for (long long i16 = 0; i16 < 4ll; i16++) {
                         {
                            const long long i17 = thread;
                            const int v53 = (int)(i17);
                            const int v55 = stepc_div(v53, v54);
                            const float v56 = b3[68ll * i14 + i16 + 4ll * (long long)v55];
                            r2[i16] = v56;
                        }
                    }
                }
                 {
                    const long long i18 = 0;
                    #pragma unroll
                    for (long long i19 = 0; i19 < 4ll; i19++) {
                         {
                            const long long i20 = thread;
                            const int v57 = (int)(i20);
                            const int v58 = stepc_rem(v57, v54);
                            const float v59 = b4[36ll * i14 + i19 + 4ll * (long long)v58];
                            r4[i19] = v59;
                        }
                    }
                }
                 {
                    const long long i21 = 0;
                    #pragma unroll
                    for (long long i22 = 0; i22 < 4ll; i22++) {
                         {
                            const long long i23 = 0;
                            #pragma unroll
                            for (long long i24 = 0; i24 < 4ll; i24++) {
                                 {
                                    const long long i25 = thread;
                                    const float v60 = r0[4ll * i22 + i24];
                                    const float v61 = r2[i22];
                                    const float v62 = r4[i24];
                                    const float v63 = fmaf(v61, v62, v60);
                                    r0[4ll * i22 + i24] = v63;
                                }
                            }
                        }
                    }
                }
            }
        }
         {
            const long long i26 = 0;
            #pragma unroll
            for (long long i27 = 0; i27 < 4ll; i27++) {
                 {
                    const long long i28 = 0;
                    #pragma unroll
                    for (long long i29 = 0; i29 < 4ll; i29++) {
                         {
                            const long long i30 = thread;
                            const float v64 = r0[4ll * i27 + i29];
                            const int v65 = (int)(i30);
                            const int v66 = stepc_div(v65, v54);
                            const int v67 = stepc_rem(v65, v54);
                            const int v68 = (int)(i27 + 4ll * (long long)v66 + 64ll * (long long)v4);
                            const bool v69 = v68 < v11;
                            const int v70 = (int)(i29 + 4ll * (long long)v67 + 32ll * (long long)v3);
                            const bool v71 = v70 < v20;
                            const bool v72 = v69 && v71;
                            if (v72) b2[(long long)v70 + 35ll * (long long)v68] = v64;
                        }
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(64) kernel_13(const float *__restrict__ b0, const float *__restrict__ b1, const float *__restrict__ b2, float *__restrict__ b3, long long lo, long long hi)
{
    __shared__ double folded[2];
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    float r0[1];
    for (int i = 0; i < 1; i++) r0[i] = v1;
    #pragma unroll 8
    for (long long i0 = 0; i0 < 70ll; i0++) {
        if (thread < 35) {
            const long long i1 = thread;
            const float v2 = b1[35ll * i0 + i1];
            const float v3 = b0[i1];
            const float v4 = v2 + v3;
            const float v5 = tanhf(v4);
            r0[0] = r0[0] + v5;
        }
    }
    const float v6 = stepc_fold<64>(folded, r0[0], [](float x, float y) -> float { return x + y; });
    const float v7 = b2[0];
    const float v8 = v6 + v7;
    __syncthreads();
    if (thread == 0) b3[0] = v8;
}

