extern "C" __global__ void __launch_bounds__(128) kernel_0(const float *__restrict__ b0, const float *__restrict__ b1, const float *__restrict__ b2, float *__restrict__ b3, float *__restrict__ b4, long long lo, long long hi)
{
    stepc_escape(b3);
    stepc_escape(b4);
    __shared__ __align__(16) float b5[1144];
    __shared__ __align__(16) float b6[572];
    const unsigned thread = threadIdx.x;
    const int v1 = (int)2ll;
    const float v5 = 0.0f;
    const int v6 = (int)4ll;
    const int v11 = (int)70ll;
    const int v17 = (int)32ll;
    const int v22 = (int)35ll;
    const int v45 = (int)10ll;
    const int v58 = (int)40ll;
    const int v62 = (int)8ll;
    const float v85 = 1.0f;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v2 = (int)(i0);
        const int v3 = stepc_div(v2, v1);
        const int v4 = stepc_rem(v2, v1);
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
        for (long long i1 = 0; i1 < 2ll; i1++) {
             {
                const long long i2 = thread;
                const int v7 = (int)(i2);
                const int v8 = stepc_rem(v7, v6);
                const int v9 = stepc_div(v7, v6);
                const int v10 = (int)(32ll * i1 + (long long)v9 + 64ll * (long long)v4);
                const bool v12 = v10 < v11;
                const auto wide13 = stepc_load_whole<4>(b0 + (40ll * (long long)v10 + 4ll * (long long)v8), v12);
                const float v13 = wide13.item[0];
                r1[4ll * i1] = v13;
                const float v14 = wide13.item[1];
                r1[4ll * i1 + 1] = v14;
                const float v15 = wide13.item[2];
                r1[4ll * i1 + 2] = v15;
                const float v16 = wide13.item[3];
                r1[4ll * i1 + 3] = v16;
            }
        }
        #pragma unroll
        for (long long i3 = 0; i3 < 4ll; i3++) {
             {
                const long long i4 = thread;
                const int v18 = (int)(i4);
                const int v19 = stepc_rem(v18, v17);
                const int v20 = stepc_div(v18, v17);
                const int v21 = (int)((long long)v19 + 32ll * (long long)v3);
                const bool v23 = v21 < v22;
                const float v24 = v23 ? b1[140ll * i3 + (long long)v21 + 35ll * (long long)v20] : (float)0;
                r3[i3] = v24;
            }
        }
        __syncthreads();
        #pragma unroll 1
        for (long long i5 = 0; i5 < 3ll; i5++) {
            __syncthreads();
            #pragma unroll
            for (long long i6 = 0; i6 < 2ll; i6++) {
                 {
                    const long long i7 = thread;
                    const int v25 = (int)(i7);
                    const int v26 = stepc_rem(v25, v6);
                    const int v27 = stepc_div(v25, v6);
                    const float v28 = r1[4ll * i6];
                    b5[32ll * i6 + (long long)v27 + 72ll * (long long)v26] = v28;
                    const float v29 = r1[4ll * i6 + 1];
                    b5[32ll * i6 + (long long)v27 + 72ll * (long long)v26 + 288] = v29;
                    const float v30 = r1[4ll * i6 + 2];
                    b5[32ll * i6 + (long long)v27 + 72ll * (long long)v26 + 576] = v30;
                    const float v31 = r1[4ll * i6 + 3];
                    b5[32ll * i6 + (long long)v27 + 72ll * (long long)v26 + 864] = v31;
                }
            }
            #pragma unroll
            for (long long i8 = 0; i8 < 4ll; i8++) {
                 {
                    const long long i9 = thread;
                    const int v32 = (int)(i9);
                    const int v33 = stepc_rem(v32, v17);
                    const int v34 = stepc_div(v32, v17);
                    const float v35 = r3[i8];
                    b6[144ll * i8 + (long long)v33 + 36ll * (long long)v34] = v35;
                }
            }
            const int v36 = (int)(i5);
            const bool v37 = v36 < v1;
            const int v38 = (int)(i5 + 1);
            if (v37) {
                #pragma unroll
                for (long long i10 = 0; i10 < 2ll; i10++) {
                     {
                        const long long i11 = thread;
                        const int v39 = (int)(i11);
                        const int v40 = stepc_rem(v39, v6);
                        const int v41 = stepc_div(v39, v6);
                        const int v42 = (int)(32ll * i10 + (long long)v41 + 64ll * (long long)v4);
                        const bool v43 = v42 < v11;
                        const int v44 = (int)((long long)v40 + 4ll * (long long)v38);
                        const bool v46 = v44 < v45;
                        const bool v47 = v43 && v46;
                        const auto wide48 = stepc_load_whole<4>(b0 + (40ll * (long long)v42 + 4ll * (long long)v44), v47);
                        const float v48 = wide48.item[0];
                        r1[4ll * i10] = v48;
                        const float v49 = wide48.item[1];
                        r1[4ll * i10 + 1] = v49;
                        const float v50 = wide48.item[2];
                        r1[4ll * i10 + 2] = v50;
                        const float v51 = wide48.item[3];
                        r1[4ll * i10 + 3] = v51;
                    }
                }
                #pragma unroll
                for (long long i12 = 0; i12 < 4ll; i12++) {
                     {
                        const long long i13 = thread;
                        const int v52 = (int)(i13);
                        const int v53 = stepc_rem(v52, v17);
                        const int v54 = stepc_div(v52, v17);
                        const int v55 = (int)((long long)v53 + 32ll * (long long)v3);
                        const bool v56 = v55 < v22;
                        const int v57 = (int)(4ll * i12 + (long long)v54 + 16ll * (long long)v38);
                        const bool v59 = v57 < v58;
                        const bool v60 = v56 && v59;
                        const float v61 = v60 ? b1[(long long)v55 + 35ll * (long long)v57] : (float)0;
                        r3[i12] = v61;
                    }
                }
            }
            __syncthreads();
            #pragma unroll 2
            for (long long i14 = 0; i14 < 4ll; i14++) {
                #pragma unroll
                for (long long i15 = 0; i15 < 4ll; i15++) {
                     {
                        const long long i16 = 0;
                        #pragma unroll
                        for (long long i17 = 0; i17 < 4ll; i17++) {
                             {
                                const long long i18 = thread;
                                const int v63 = (int)(i18);
                                const int v64 = stepc_div(v63, v62);
                                const float v65 = b5[72ll * i14 + 288ll * i15 + i17 + 4ll * (long long)v64];
                                r2[i17] = v65;
                            }
                        }
                    }
                     {
                        const long long i19 = 0;
                        #pragma unroll
                        for (long long i20 = 0; i20 < 4ll; i20++) {
                             {
                                const long long i21 = thread;
                                const int v66 = (int)(i21);
                                const int v67 = stepc_rem(v66, v62);
                                const float v68 = b6[144ll * i14 + 36ll * i15 + i20 + 4ll * (long long)v67];
                                r4[i20] = v68;
                            }
                        }
                    }
                     {
                        const long long i22 = 0;
                        #pragma unroll
                        for (long long i23 = 0; i23 < 4ll; i23++) {
                             {
                                const long long i24 = 0;
                                #pragma unroll
                                for (long long i25 = 0; i25 < 4ll; i25++) {
                                     {
                                        const long long i26 = thread;
                                        const float v69 = r0[4ll * i23 + i25];
                                        const float v70 = r2[i23];
                                        const float v71 = r4[i25];
                                        const float v72 = fmaf(v70, v71, v69);
                                        r0[4ll * i23 + i25] = v72;
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
         {
            const long long i27 = 0;
            #pragma unroll
            for (long long i28 = 0; i28 < 4ll; i28++) {
                 {
                    const long long i29 = 0;
                     {
                        const long long i30 = 0;
                         {
                            const long long i31 = thread;
                            const int v73 = (int)(i31);
                            const int v74 = stepc_div(v73, v62);
                            const int v75 = stepc_rem(v73, v62);
                            const int v76 = (int)(i28 + 4ll * (long long)v74 + 64ll * (long long)v4);
                            const bool v77 = v76 < v11;
                            const int v78 = (int)(4ll * (long long)v75 + 32ll * (long long)v3);
                            const bool v79 = v78 < v22;
                            const bool v80 = v77 && v79;
                            const float v81 = r0[4ll * i28];
                            const float v82 = v80 ? b2[(long long)v78] : (float)0;
                            const float v83 = v81 + v82;
                            const float v84 = tanhf(v83);
                            const float v86 = v85 - v84;
                            const float v87 = v86 * v84;
                            const float v88 = v86 + v87;
                            const int v89 = (int)(4ll * (long long)v75 + 32ll * (long long)v3 + 1);
                            const bool v90 = v89 < v22;
                            const bool v91 = v77 && v90;
                            const float v92 = r0[4ll * i28 + 1];
                            const float v93 = v91 ? b2[(long long)v89] : (float)0;
                            const float v94 = v92 + v93;
                            const float v95 = tanhf(v94);
                            const float v96 = v85 - v95;
                            const float v97 = v96 * v95;
                            const float v98 = v96 + v97;
                            const int v99 = (int)(4ll * (long long)v75 + 32ll * (long long)v3 + 2);
                            const bool v100 = v99 < v22;
                            const bool v101 = v77 && v100;
                            const float v102 = r0[4ll * i28 + 2];
                            const float v103 = v101 ? b2[(long long)v99] : (float)0;
                            const float v104 = v102 + v103;
                            const float v105 = tanhf(v104);
                            const float v106 = v85 - v105;
                            const float v107 = v106 * v105;
                            const float v108 = v106 + v107;
                            const int v109 = (int)(4ll * (long long)v75 + 32ll * (long long)v3 + 3);
                            const bool v110 = v109 < v22;
                            const bool v111 = v77 && v110;
                            const float v112 = r0[4ll * i28 + 3];
                            const float v113 = v111 ? b2[(long long)v109] : (float)0;
                            const float v114 = v112 + v113;
                            const float v115 = tanhf(v114);
                            const float v116 = v85 - v115;
                            const float v117 = v116 * v115;
                            const float v118 = v116 + v117;
                            if (v80) b3[(long long)v78 + 35ll * (long long)v76] = v84;
                            if (v80) b4[(long long)v78 + 35ll * (long long)v76] = v88;
                            if (v91) b3[(long long)v89 + 35ll * (long long)v76] = v95;
                            if (v91) b4[(long long)v89 + 35ll * (long long)v76] = v98;
                            if (v101) b3[(long long)v99 + 35ll * (long long)v76] = v105;
                            if (v101) b4[(long long)v99 + 35ll * (long long)v76] = v108;
                            if (v111) b3[(long long)v109 + 35ll * (long long)v76] = v115;
                            if (v111) b4[(long long)v109 + 35ll * (long long)v76] = v118;
                        }
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128, 2) kernel_2(const unsigned short *__restrict__ b0, const unsigned short *__restrict__ b1, float *__restrict__ b2, long long lo, long long hi)
{
    stepc_escape(b2);
    __shared__ __align__(1024) unsigned b3[3072];
    __shared__ __align__(1024) unsigned b4[1536];
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    const unsigned v2 = (unsigned)0ll;
    const int v3 = (int)3ll;
    const int v6 = (int)4ll;
    const int v11 = (int)32ll;
    const int v22 = (int)2ll;
    const int v42 = (int)8ll;
    const int v48 = (int)12ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r0[i] = v1;
        unsigned r1[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r1[i] = v2;
        unsigned r2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r2[i] = v2;
        unsigned r3[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r3[i] = v2;
        unsigned r4[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r4[i] = v2;
        stepc_copies_wait<0>();
        __syncthreads();
        for (long long i1 = 0; i1 < 2ll; i1++) {
            const int v4 = (int)(i1);
            const int v5 = stepc_rem(v4, v3);
            #pragma unroll
            for (long long i2 = 0; i2 < 2ll; i2++) {
                 {
                    const long long i3 = thread;
                    const int v7 = (int)(i3);
                    const int v8 = stepc_rem(v7, v6);
                    const int v9 = stepc_div(v7, v6);
                    const int v10 = (int)(32ll * i2 + (long long)v9);
                    const bool v12 = v10 < v11;
                    stepc_copy(&b3[stepc_swizzled<64>(16ll * (long long)v9 + 4ll * (long long)v8) + 512ll * i2 + 1024ll * (long long)v5], b0 + (128ll * i0 + 32ll * i1 + 512ll * (long long)v10 + 8ll * (long long)v8), v12);
                }
            }
             {
                const long long i4 = 0;
                 {
                    const long long i5 = thread;
                    const int v14 = (int)(i5);
                    const int v15 = stepc_rem(v14, v6);
                    const int v16 = stepc_div(v14, v6);
                    const int v17 = (int)((long long)v15);
                    const bool v18 = v17 < v3;
                    stepc_copy(&b4[stepc_swizzled<64>(4ll * (long long)v15 + 16ll * (long long)v16) + 512ll * (long long)v5], b1 + (3072ll * i0 + 768ll * i1 + 8ll * (long long)v17 + 24ll * (long long)v16), v18);
                }
            }
            stepc_copies_end();
        }
        #pragma unroll 1
        for (long long i6 = 0; i6 < 4ll; i6++) {
            const int v20 = (int)(i6);
            const int v21 = stepc_rem(v20, v3);
            stepc_copies_wait<1>();
            __syncthreads();
            const bool v23 = v20 < v22;
            const int v24 = (int)(i6 + 2);
            const int v25 = (int)((long long)v24);
            const int v26 = stepc_rem(v25, v3);
            if (v23) {
                #pragma unroll
                for (long long i7 = 0; i7 < 2ll; i7++) {
                     {
                        const long long i8 = thread;
                        const int v27 = (int)(i8);
                        const int v28 = stepc_rem(v27, v6);
                        const int v29 = stepc_div(v27, v6);
                        const int v30 = (int)(32ll * i7 + (long long)v29);
                        const bool v31 = v30 < v11;
                        stepc_copy(&b3[stepc_swizzled<64>(16ll * (long long)v29 + 4ll * (long long)v28) + 512ll * i7 + 1024ll * (long long)v26], b0 + (128ll * i0 + 512ll * (long long)v30 + 8ll * (long long)v28 + 32ll * (long long)v24), v31);
                    }
                }
                 {
                    const long long i9 = 0;
                     {
                        const long long i10 = thread;
                        const int v33 = (int)(i10);
                        const int v34 = stepc_rem(v33, v6);
                        const int v35 = stepc_div(v33, v6);
                        const int v36 = (int)((long long)v34);
                        const bool v37 = v36 < v3;
                        stepc_copy(&b4[stepc_swizzled<64>(4ll * (long long)v34 + 16ll * (long long)v35) + 512ll * (long long)v26], b1 + (3072ll * i0 + 8ll * (long long)v36 + 24ll * (long long)v35 + 768ll * (long long)v24), v37);
                    }
                }
            }
            stepc_copies_end();
            stepc_take_left<16, 32, 0, 0>(r1, threadIdx.x / 32 % 4, b3, 1024ll * (long long)v21);
            stepc_take_right<32, 32, 32, 0>(r3, threadIdx.x / 32 % 1, b4, 512ll * (long long)v21);
            stepc_matrix_bf16<1, 4>(r0, r1, r3);
            stepc_take_left<16, 32, 0, 16>(r2, threadIdx.x / 32 % 4, b3, 1024ll * (long long)v21);
            stepc_take_right<32, 32, 32, 16>(r4, threadIdx.x / 32 % 1, b4, 512ll * (long long)v21);
            stepc_matrix_bf16<1, 4>(r0, r2, r4);
        }
         {
            const long long i11 = 0;
            #pragma unroll
            for (long long i12 = 0; i12 < 2ll; i12++) {
                #pragma unroll
                for (long long i13 = 0; i13 < 4ll; i13++) {
                     {
                        const long long i14 = 0;
                         {
                            const long long i15 = thread;
                            const int v39 = (int)(i15);
                            const int v40 = stepc_div(v39, v11);
                            const int v41 = stepc_div(v39, v6);
                            const int v43 = stepc_rem(v41, v42);
                            const int v44 = stepc_rem(v39, v6);
                            const int v45 = (int)(8ll * i12 + 16ll * (long long)v40 + (long long)v43);
                            const bool v46 = v45 < v11;
                            const int v47 = (int)(4ll * i13 + (long long)v44);
                            const bool v49 = v47 < v48;
                            const bool v50 = v46 && v49;
                            const float v51 = r0[2ll * i12 + 4ll * i13];
                            const float v52 = r0[2ll * i12 + 4ll * i13 + 1];
                            stepc_few<float, 2> run2_51;
                            run2_51.item[0] = v51;
                            run2_51.item[1] = v52;
                            stepc_store_whole(b2 + (768ll * i0 + 2ll * (long long)v47 + 24ll * (long long)v45), run2_51, v50);
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

extern "C" __global__ void __launch_bounds__(128, 2) kernel_5(const unsigned short *__restrict__ b0, const unsigned short *b1, const double *__restrict__ b2, unsigned short *b3, long long lo, long long hi, volatile unsigned *flag)
{
    __shared__ __align__(1024) unsigned b4[3072];
    __shared__ __align__(1024) unsigned b5[1536];
    const unsigned thread = threadIdx.x;
    bool bad = false;
    const float v1 = 0.0f;
    const unsigned v2 = (unsigned)0ll;
    const int v3 = (int)8ll;
    const int v8 = (int)4ll;
    const int v13 = (int)3ll;
    const float v15 = 1.0f;
    const float v16 = 0.0f;
    const unsigned v20 = (unsigned)16ll;
    const int v30 = (int)32ll;
    const int v37 = (int)12ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r0[i] = v1;
        unsigned r1[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r1[i] = v2;
        unsigned r2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r2[i] = v2;
        unsigned r3[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r3[i] = v2;
        unsigned r4[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r4[i] = v2;
        unsigned r5[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r5[i] = v2;
        stepc_copies_wait<0>();
        __syncthreads();
         {
            const long long i1 = 0;
            #pragma unroll
            for (long long i2 = 0; i2 < 2ll; i2++) {
                 {
                    const long long i3 = thread;
                    const int v4 = (int)(i3);
                    const int v5 = stepc_rem(v4, v3);
                    const int v6 = stepc_div(v4, v3);
                    stepc_copy(&b4[stepc_swizzled<128>(4ll * (long long)v5 + 32ll * (long long)v6) + 512ll * i2], b0 + (64ll * i0 + 8192ll * i2 + 8ll * (long long)v5 + 512ll * (long long)v6), true);
                }
            }
            stepc_copies_end();
        }
        stepc_copies_end();
         {
            const long long i4 = 0;
             {
                const long long i5 = thread;
                const int v9 = (int)(i5);
                const int v10 = stepc_rem(v9, v8);
                const int v12 = (int)((long long)v10);
                const bool v14 = v12 < v13;
                const float v17 = v14 ? v15 : v16;
                const unsigned short v18 = (unsigned short)stepc_bf16_bits(v17);
                const unsigned v19 = (unsigned)v18;
                const unsigned v21 = stepc_shl(v19, v20);
                const unsigned v22 = (unsigned)(v19 | v21);
                r3[0] = v22;
                r3[1] = v22;
                r3[2] = v22;
                r3[3] = v22;
            }
        }
         {
            const long long i6 = 0;
             {
                const long long i7 = 0;
                 {
                    const long long i8 = thread;
                    const int v23 = (int)(i8);
                    const int v24 = stepc_rem(v23, v8);
                    const int v25 = stepc_div(v23, v8);
                    const unsigned v26 = r3[0];
                    b5[stepc_swizzled<64>(4ll * (long long)v24 + 16ll * (long long)v25)] = v26;
                    const unsigned v27 = r3[1];
                    b5[stepc_swizzled<64>(4ll * (long long)v24 + 16ll * (long long)v25) + 1] = v27;
                    const unsigned v28 = r3[2];
                    b5[stepc_swizzled<64>(4ll * (long long)v24 + 16ll * (long long)v25) + 2] = v28;
                    const unsigned v29 = r3[3];
                    b5[stepc_swizzled<64>(4ll * (long long)v24 + 16ll * (long long)v25) + 3] = v29;
                }
            }
            stepc_copies_wait<1>();
            __syncthreads();
            stepc_copies_end();
            stepc_take_left<16, 32, 64, 0>(r1, threadIdx.x / 32 % 4, b4, 0);
            stepc_take_right<32, 32, 32, 0>(r4, threadIdx.x / 32 % 1, b5, 0);
            stepc_matrix_bf16<1, 4>(r0, r1, r4);
            stepc_take_left<16, 32, 64, 16>(r2, threadIdx.x / 32 % 4, b4, 0);
            stepc_take_right<32, 32, 32, 16>(r5, threadIdx.x / 32 % 1, b5, 0);
            stepc_matrix_bf16<1, 4>(r0, r2, r5);
        }
         {
            const long long i9 = 0;
            #pragma unroll
            for (long long i10 = 0; i10 < 2ll; i10++) {
                #pragma unroll
                for (long long i11 = 0; i11 < 4ll; i11++) {
                     {
                        const long long i12 = 0;
                         {
                            const long long i13 = thread;
                            const int v31 = (int)(i13);
                            const int v32 = stepc_div(v31, v30);
                            const int v33 = stepc_div(v31, v8);
                            const int v34 = stepc_rem(v33, v3);
                            const int v35 = stepc_rem(v31, v8);
                            const int v36 = (int)(4ll * i11 + (long long)v35);
                            const bool v38 = v36 < v37;
                            const float v39 = r0[2ll * i10 + 4ll * i11];
                            const float v40 = stepc_bf16_round((float)v39);
                            const auto wide41 = stepc_load_whole<1>((const unsigned *)(b1 + (1536ll * i0 + 192ll * i10 + 2ll * (long long)v36 + 384ll * (long long)v32 + 24ll * (long long)v34)), v38);
                            const float v41 = stepc_bf16_value(stepc_half<0>(wide41.item[0]));
                            const double v42 = v38 ? b2[0] : (double)0;
                            const double v43 = -v42;
                            const float v44 = stepc_bf16_round((float)v43);
                            const float v45 = stepc_bf16_mul(v44, v40);
                            const float v46 = stepc_bf16_add(v41, v45);
                            const float v47 = r0[2ll * i10 + 4ll * i11 + 1];
                            const float v48 = stepc_bf16_round((float)v47);
                            const float v49 = stepc_bf16_value(stepc_half<1>(wide41.item[0]));
                            const float v50 = stepc_bf16_mul(v44, v48);
                            const float v51 = stepc_bf16_add(v49, v50);
                            stepc_few<unsigned short, 2> run3_46;
                            run3_46.item[0] = stepc_bf16_bits(v46);
                            if (v38) bad |= stepc_not_finite(v46);
                            run3_46.item[1] = stepc_bf16_bits(v51);
                            stepc_store_whole(b3 + (1536ll * i0 + 192ll * i10 + 2ll * (long long)v36 + 384ll * (long long)v32 + 24ll * (long long)v34), run3_46, v38);
                            if (v38) bad |= stepc_not_finite(v51);
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
    const int each = wide ? 1 : 256;
    for (long long at = lo + (long long)member.block * 1024 + (wide ? thread * 4 : thread); at < hi; at += (long long)member.blocks * 1024) {
        const long long i0 = at;
        const long long left = wide ? hi - at : (hi - at + 255) / 256;
        const int count = left < 4 ? (int)left : 4;
        const bool whole = wide && count == 4;
        stepc_few<float, 4> out0;
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            const long long i0 = at + (k < count ? k : count - 1) * each;
            out0.item[k] = v1;
        }
        stepc_store_few(b0 + (i0), out0, count, each, whole);
    }
}

extern "C" __global__ void __launch_bounds__(256) kernel_10(unsigned short *__restrict__ b0, long long lo, long long hi)
{
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    const bool wide = lo % 8 == 0 && stepc_is_aligned<8>(b0);
    const int each = wide ? 1 : 256;
    for (long long at = lo + (long long)blockIdx.x * 2048 + (wide ? thread * 8 : thread); at < hi; at += (long long)gridDim.x * 2048) {
        const long long i0 = at;
        const long long left = wide ? hi - at : (hi - at + 255) / 256;
        const int count = left < 8 ? (int)left : 8;
        const bool whole = wide && count == 8;
        stepc_few<unsigned short, 8> out0;
        #pragma unroll
        for (int k = 0; k < 8; k++) {
            const long long i0 = at + (k < count ? k : count - 1) * each;
            out0.item[k] = stepc_bf16_bits(v1);
        }
        stepc_store_few(b0 + (i0), out0, count, each, whole);
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
    stepc_escape(b2);
    __shared__ __align__(16) float b3[1144];
    __shared__ __align__(16) float b4[572];
    const unsigned thread = threadIdx.x;
    const int v1 = (int)2ll;
    const float v5 = 0.0f;
    const int v6 = (int)4ll;
    const int v11 = (int)70ll;
    const int v17 = (int)32ll;
    const int v22 = (int)35ll;
    const int v45 = (int)10ll;
    const int v58 = (int)40ll;
    const int v62 = (int)8ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        const int v2 = (int)(i0);
        const int v3 = stepc_div(v2, v1);
        const int v4 = stepc_rem(v2, v1);
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
        for (long long i1 = 0; i1 < 2ll; i1++) {
             {
                const long long i2 = thread;
                const int v7 = (int)(i2);
                const int v8 = stepc_rem(v7, v6);
                const int v9 = stepc_div(v7, v6);
                const int v10 = (int)(32ll * i1 + (long long)v9 + 64ll * (long long)v4);
                const bool v12 = v10 < v11;
                const auto wide13 = stepc_load_whole<4>(b0 + (40ll * (long long)v10 + 4ll * (long long)v8), v12);
                const float v13 = wide13.item[0];
                r1[4ll * i1] = v13;
                const float v14 = wide13.item[1];
                r1[4ll * i1 + 1] = v14;
                const float v15 = wide13.item[2];
                r1[4ll * i1 + 2] = v15;
                const float v16 = wide13.item[3];
                r1[4ll * i1 + 3] = v16;
            }
        }
        #pragma unroll
        for (long long i3 = 0; i3 < 4ll; i3++) {
             {
                const long long i4 = thread;
                const int v18 = (int)(i4);
                const int v19 = stepc_rem(v18, v17);
                const int v20 = stepc_div(v18, v17);
                const int v21 = (int)((long long)v19 + 32ll * (long long)v3);
                const bool v23 = v21 < v22;
                const float v24 = v23 ? b1[140ll * i3 + (long long)v21 + 35ll * (long long)v20] : (float)0;
                r3[i3] = v24;
            }
        }
        __syncthreads();
        #pragma unroll 1
        for (long long i5 = 0; i5 < 3ll; i5++) {
            __syncthreads();
            #pragma unroll
            for (long long i6 = 0; i6 < 2ll; i6++) {
                 {
                    const long long i7 = thread;
                    const int v25 = (int)(i7);
                    const int v26 = stepc_rem(v25, v6);
                    const int v27 = stepc_div(v25, v6);
                    const float v28 = r1[4ll * i6];
                    b3[32ll * i6 + (long long)v27 + 72ll * (long long)v26] = v28;
                    const float v29 = r1[4ll * i6 + 1];
                    b3[32ll * i6 + (long long)v27 + 72ll * (long long)v26 + 288] = v29;
                    const float v30 = r1[4ll * i6 + 2];
                    b3[32ll * i6 + (long long)v27 + 72ll * (long long)v26 + 576] = v30;
                    const float v31 = r1[4ll * i6 + 3];
                    b3[32ll * i6 + (long long)v27 + 72ll * (long long)v26 + 864] = v31;
                }
            }
            #pragma unroll
            for (long long i8 = 0; i8 < 4ll; i8++) {
                 {
                    const long long i9 = thread;
                    const int v32 = (int)(i9);
                    const int v33 = stepc_rem(v32, v17);
                    const int v34 = stepc_div(v32, v17);
                    const float v35 = r3[i8];
                    b4[144ll * i8 + (long long)v33 + 36ll * (long long)v34] = v35;
                }
            }
            const int v36 = (int)(i5);
            const bool v37 = v36 < v1;
            const int v38 = (int)(i5 + 1);
            if (v37) {
                #pragma unroll
                for (long long i10 = 0; i10 < 2ll; i10++) {
                     {
                        const long long i11 = thread;
                        const int v39 = (int)(i11);
                        const int v40 = stepc_rem(v39, v6);
                        const int v41 = stepc_div(v39, v6);
                        const int v42 = (int)(32ll * i10 + (long long)v41 + 64ll * (long long)v4);
                        const bool v43 = v42 < v11;
                        const int v44 = (int)((long long)v40 + 4ll * (long long)v38);
                        const bool v46 = v44 < v45;
                        const bool v47 = v43 && v46;
                        const auto wide48 = stepc_load_whole<4>(b0 + (40ll * (long long)v42 + 4ll * (long long)v44), v47);
                        const float v48 = wide48.item[0];
                        r1[4ll * i10] = v48;
                        const float v49 = wide48.item[1];
                        r1[4ll * i10 + 1] = v49;
                        const float v50 = wide48.item[2];
                        r1[4ll * i10 + 2] = v50;
                        const float v51 = wide48.item[3];
                        r1[4ll * i10 + 3] = v51;
                    }
                }
                #pragma unroll
                for (long long i12 = 0; i12 < 4ll; i12++) {
                     {
                        const long long i13 = thread;
                        const int v52 = (int)(i13);
                        const int v53 = stepc_rem(v52, v17);
                        const int v54 = stepc_div(v52, v17);
                        const int v55 = (int)((long long)v53 + 32ll * (long long)v3);
                        const bool v56 = v55 < v22;
                        const int v57 = (int)(4ll * i12 + (long long)v54 + 16ll * (long long)v38);
                        const bool v59 = v57 < v58;
                        const bool v60 = v56 && v59;
                        const float v61 = v60 ? b1[(long long)v55 + 35ll * (long long)v57] : (float)0;
                        r3[i12] = v61;
                    }
                }
            }
            __syncthreads();
            #pragma unroll 2
            for (long long i14 = 0; i14 < 4ll; i14++) {
                #pragma unroll
                for (long long i15 = 0; i15 < 4ll; i15++) {
                     {
                        const long long i16 = 0;
                        #pragma unroll
                        for (long long i17 = 0; i17 < 4ll; i17++) {
                             {
                                const long long i18 = thread;
                                const int v63 = (int)(i18);
                                const int v64 = stepc_div(v63, v62);
                                const float v65 = b3[72ll * i14 + 288ll * i15 + i17 + 4ll * (long long)v64];
                                r2[i17] = v65;
                            }
                        }
                    }
                     {
                        const long long i19 = 0;
                        #pragma unroll
                        for (long long i20 = 0; i20 < 4ll; i20++) {
                             {
                                const long long i21 = thread;
                                const int v66 = (int)(i21);
                                const int v67 = stepc_rem(v66, v62);
                                const float v68 = b4[144ll * i14 + 36ll * i15 + i20 + 4ll * (long long)v67];
                                r4[i20] = v68;
                            }
                        }
                    }
                     {
                        const long long i22 = 0;
                        #pragma unroll
                        for (long long i23 = 0; i23 < 4ll; i23++) {
                             {
                                const long long i24 = 0;
                                #pragma unroll
                                for (long long i25 = 0; i25 < 4ll; i25++) {
                                     {
                                        const long long i26 = thread;
                                        const float v69 = r0[4ll * i23 + i25];
                                        const float v70 = r2[i23];
                                        const float v71 = r4[i25];
                                        const float v72 = fmaf(v70, v71, v69);
                                        r0[4ll * i23 + i25] = v72;
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
         {
            const long long i27 = 0;
            #pragma unroll
            for (long long i28 = 0; i28 < 4ll; i28++) {
                 {
                    const long long i29 = 0;
                     {
                        const long long i30 = 0;
                         {
                            const long long i31 = thread;
                            const int v73 = (int)(i31);
                            const int v74 = stepc_div(v73, v62);
                            const int v75 = stepc_rem(v73, v62);
                            const int v76 = (int)(i28 + 4ll * (long long)v74 + 64ll * (long long)v4);
                            const bool v77 = v76 < v11;
                            const int v78 = (int)(4ll * (long long)v75 + 32ll * (long long)v3);
                            const bool v79 = v78 < v22;
                            const bool v80 = v77 && v79;
                            const float v81 = r0[4ll * i28];
                            const int v82 = (int)(4ll * (long long)v75 + 32ll * (long long)v3 + 1);
                            const bool v83 = v82 < v22;
                            const bool v84 = v77 && v83;
                            const float v85 = r0[4ll * i28 + 1];
                            const int v86 = (int)(4ll * (long long)v75 + 32ll * (long long)v3 + 2);
                            const bool v87 = v86 < v22;
                            const bool v88 = v77 && v87;
                            const float v89 = r0[4ll * i28 + 2];
                            const int v90 = (int)(4ll * (long long)v75 + 32ll * (long long)v3 + 3);
                            const bool v91 = v90 < v22;
                            const bool v92 = v77 && v91;
                            const float v93 = r0[4ll * i28 + 3];
                            if (v80) b2[(long long)v78 + 35ll * (long long)v76] = v81;
                            if (v84) b2[(long long)v82 + 35ll * (long long)v76] = v85;
                            if (v88) b2[(long long)v86 + 35ll * (long long)v76] = v89;
                            if (v92) b2[(long long)v90 + 35ll * (long long)v76] = v93;
                        }
                    }
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) sequence(const __grid_constant__ stepc_table<508> table)
{
    __shared__ __align__(16) unsigned char shared[13312];
    for (unsigned at = 1; at < table.word[0];) {
        switch (table.word[at++]) {
        case 1: {
            const unsigned thread = threadIdx.x % 256;
            double *const folded = (double *)(shared + 0) + threadIdx.x / 256 * 8;
            const float *const b0 = (const float *)stepc_global(table.word[at + 0]);
            const float *const b1 = (const float *)stepc_global(table.word[at + 1]);
            float *const b2 = (float *)stepc_global(table.word[at + 2]);
            const long long lo = 0, hi = (long long)table.word[at + 4];
            const float v1 = 0.0f;
            float r0[1];
            for (int i = 0; i < 1; i++) r0[i] = v1;
            for (long long from = thread * 2; from < 2450ll; from += 512) {
                const long long i0 = from;
                const auto few2 = stepc_load_whole<2>(b0 + (i0), true);
                #pragma unroll
                for (int k = 0; k < 2; k++) {
                    const long long i0 = from + k;
                    const float v2 = few2.item[k];
                    r0[0] = r0[0] + v2;
                }
            }
            const float v3 = stepc_fold<256>(folded, r0[0], [](float x, float y) -> float { return x + y; });
            const float v4 = b1[0];
            const float v5 = v3 + v4;
            __syncthreads();
            if (thread == 0) b2[0] = v5;
            at += 5;
            break;
        }
        case 4: {
            const unsigned thread = threadIdx.x % 256;
            double *const folded = (double *)(shared + 0) + threadIdx.x / 256 * 8;
            const float *const b0 = (const float *)stepc_global(table.word[at + 0]);
            float *const b1 = (float *)stepc_global(table.word[at + 1]);
            const long long lo = 0, hi = (long long)table.word[at + 3];
            const float v1 = 0.0f;
            float r0[1];
            for (int i = 0; i < 1; i++) r0[i] = v1;
            for (long long from = thread * 4; from < 768ll; from += 1024) {
                const long long i0 = from;
                const auto few2 = stepc_load_whole<4>(b0 + (i0), true);
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const long long i0 = from + k;
                    const float v2 = few2.item[k];
                    const float v3 = stepc_bf16_round((float)v2);
                    const float v4 = (float)v3;
                    r0[0] = r0[0] + v4;
                }
            }
            const float v5 = stepc_fold<256>(folded, r0[0], [](float x, float y) -> float { return x + y; });
            if (thread == 0) b1[0] = v5;
            at += 4;
            break;
        }
        case 6: {
            if (threadIdx.x < 64) {
                const unsigned thread = threadIdx.x % 64;
                volatile unsigned *const flag = (unsigned *)stepc_global(table.word[at + 6]);
                bool bad = false;
                const float *const b0 = (const float *)stepc_global(table.word[at + 0]);
                const double *const b1 = (const double *)stepc_global(table.word[at + 1]);
                const float *const b2 = (const float *)stepc_global(table.word[at + 2]);
                float *const b3 = (float *)stepc_global(table.word[at + 3]);
                const long long lo = 0, hi = (long long)table.word[at + 5];
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
            at += 7;
            break;
        }
        case 7: {
            const unsigned thread = threadIdx.x % 128;
            volatile unsigned *const flag = (unsigned *)stepc_global(table.word[at + 7]);
            bool bad = false;
            float *const b5 = (float *)(shared + 0) + threadIdx.x / 128 * 1088;
            float *const b6 = (float *)(shared + 8704) + threadIdx.x / 128 * 576;
            const float *const b0 = (const float *)stepc_global(table.word[at + 0]);
            const float *const b1 = (const float *)stepc_global(table.word[at + 1]);
            const double *const b2 = (const double *)stepc_global(table.word[at + 2]);
            const float *const b3 = (const float *)stepc_global(table.word[at + 3]);
            float *const b4 = (float *)stepc_global(table.word[at + 4]);
            const long long lo = 0, hi = (long long)table.word[at + 6];
            const float v1 = 0.0f;
            const int v2 = (int)16ll;
            const int v7 = (int)10ll;
            const int v13 = (int)32ll;
            const int v18 = (int)35ll;
            const int v32 = (int)4ll;
            const int v42 = (int)70ll;
            const int v58 = (int)8ll;
            const int v73 = (int)40ll;
            for (long long i0 = lo + (threadIdx.x / 128); i0 < hi; i0 += 2) {
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
                for (long long i1 = 0; i1 < 2ll; i1++) {
                     {
                        const long long i2 = thread;
                        const int v3 = (int)(i2);
                        const int v4 = stepc_rem(v3, v2);
                        const int v5 = stepc_div(v3, v2);
                        const int v6 = (int)((long long)v4);
                        const bool v8 = v6 < v7;
                        const auto wide9 = stepc_load_whole<4>(b0 + (320ll * i1 + 4ll * (long long)v6 + 40ll * (long long)v5), v8);
                        const float v9 = wide9.item[0];
                        r1[4ll * i1] = v9;
                        const float v10 = wide9.item[1];
                        r1[4ll * i1 + 1] = v10;
                        const float v11 = wide9.item[2];
                        r1[4ll * i1 + 2] = v11;
                        const float v12 = wide9.item[3];
                        r1[4ll * i1 + 3] = v12;
                    }
                }
                #pragma unroll
                for (long long i3 = 0; i3 < 4ll; i3++) {
                     {
                        const long long i4 = thread;
                        const int v14 = (int)(i4);
                        const int v15 = stepc_rem(v14, v13);
                        const int v16 = stepc_div(v14, v13);
                        const int v17 = (int)(32ll * i0 + (long long)v15);
                        const bool v19 = v17 < v18;
                        const float v20 = v19 ? b3[140ll * i3 + (long long)v17 + 35ll * (long long)v16] : (float)0;
                        r3[i3] = v20;
                    }
                }
                stepc_barrier(128);
                #pragma unroll 1
                for (long long i5 = 0; i5 < 5ll; i5++) {
                    stepc_barrier(128);
                    #pragma unroll
                    for (long long i6 = 0; i6 < 2ll; i6++) {
                         {
                            const long long i7 = thread;
                            const int v21 = (int)(i7);
                            const int v22 = stepc_rem(v21, v2);
                            const int v23 = stepc_div(v21, v2);
                            const float v24 = r1[4ll * i6];
                            b5[544ll * i6 + 4ll * (long long)v22 + 68ll * (long long)v23] = v24;
                            const float v25 = r1[4ll * i6 + 1];
                            b5[544ll * i6 + 4ll * (long long)v22 + 68ll * (long long)v23 + 1] = v25;
                            const float v26 = r1[4ll * i6 + 2];
                            b5[544ll * i6 + 4ll * (long long)v22 + 68ll * (long long)v23 + 2] = v26;
                            const float v27 = r1[4ll * i6 + 3];
                            b5[544ll * i6 + 4ll * (long long)v22 + 68ll * (long long)v23 + 3] = v27;
                        }
                    }
                    #pragma unroll
                    for (long long i8 = 0; i8 < 4ll; i8++) {
                         {
                            const long long i9 = thread;
                            const int v28 = (int)(i9);
                            const int v29 = stepc_rem(v28, v13);
                            const int v30 = stepc_div(v28, v13);
                            const float v31 = r3[i8];
                            b6[144ll * i8 + (long long)v29 + 36ll * (long long)v30] = v31;
                        }
                    }
                    const int v33 = (int)(i5);
                    const bool v34 = v33 < v32;
                    const int v35 = (int)(i5 + 1);
                    if (v34) {
                        #pragma unroll
                        for (long long i10 = 0; i10 < 2ll; i10++) {
                             {
                                const long long i11 = thread;
                                const int v36 = (int)(i11);
                                const int v37 = stepc_rem(v36, v2);
                                const int v38 = stepc_div(v36, v2);
                                const int v39 = (int)((long long)v37);
                                const bool v40 = v39 < v7;
                                const int v41 = (int)(8ll * i10 + (long long)v38 + 16ll * (long long)v35);
                                const bool v43 = v41 < v42;
                                const bool v44 = v40 && v43;
                                const auto wide45 = stepc_load_whole<4>(b0 + (4ll * (long long)v39 + 40ll * (long long)v41), v44);
                                const float v45 = wide45.item[0];
                                r1[4ll * i10] = v45;
                                const float v46 = wide45.item[1];
                                r1[4ll * i10 + 1] = v46;
                                const float v47 = wide45.item[2];
                                r1[4ll * i10 + 2] = v47;
                                const float v48 = wide45.item[3];
                                r1[4ll * i10 + 3] = v48;
                            }
                        }
                        #pragma unroll
                        for (long long i12 = 0; i12 < 4ll; i12++) {
                             {
                                const long long i13 = thread;
                                const int v49 = (int)(i13);
                                const int v50 = stepc_rem(v49, v13);
                                const int v51 = stepc_div(v49, v13);
                                const int v52 = (int)(32ll * i0 + (long long)v50);
                                const bool v53 = v52 < v18;
                                const int v54 = (int)(4ll * i12 + (long long)v51 + 16ll * (long long)v35);
                                const bool v55 = v54 < v42;
                                const bool v56 = v53 && v55;
                                const float v57 = v56 ? b3[(long long)v52 + 35ll * (long long)v54] : (float)0;
                                r3[i12] = v57;
                            }
                        }
                    }
                    stepc_barrier(128);
                    #pragma unroll 8
                    for (long long i14 = 0; i14 < 16ll; i14++) {
                         {
                            const long long i15 = 0;
                            #pragma unroll
                            for (long long i16 = 0; i16 < 4ll; i16++) {
                                 {
                                    const long long i17 = thread;
                                    const int v59 = (int)(i17);
                                    const int v60 = stepc_div(v59, v58);
                                    const float v61 = b5[68ll * i14 + i16 + 4ll * (long long)v60];
                                    r2[i16] = v61;
                                }
                            }
                        }
                         {
                            const long long i18 = 0;
                            #pragma unroll
                            for (long long i19 = 0; i19 < 4ll; i19++) {
                                 {
                                    const long long i20 = thread;
                                    const int v62 = (int)(i20);
                                    const int v63 = stepc_rem(v62, v58);
                                    const float v64 = b6[36ll * i14 + i19 + 4ll * (long long)v63];
                                    r4[i19] = v64;
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
                                            const float v65 = r0[4ll * i22 + i24];
                                            const float v66 = r2[i22];
                                            const float v67 = r4[i24];
                                            const float v68 = fmaf(v66, v67, v65);
                                            r0[4ll * i22 + i24] = v68;
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
                             {
                                const long long i29 = 0;
                                 {
                                    const long long i30 = thread;
                                    const int v69 = (int)(i30);
                                    const int v70 = stepc_div(v69, v58);
                                    const int v71 = stepc_rem(v69, v58);
                                    const int v72 = (int)(i27 + 4ll * (long long)v70);
                                    const bool v74 = v72 < v73;
                                    const int v75 = (int)(32ll * i0 + 4ll * (long long)v71);
                                    const bool v76 = v75 < v18;
                                    const bool v77 = v74 && v76;
                                    const float v78 = r0[4ll * i27];
                                    const float v79 = v77 ? b1[(long long)v75 + 35ll * (long long)v72] : (float)0;
                                    const double v80 = v77 ? b2[0] : (double)0;
                                    const double v81 = -v80;
                                    const float v82 = (float)v81;
                                    const float v83 = v82 * v78;
                                    const float v84 = v79 + v83;
                                    const int v85 = (int)(32ll * i0 + 4ll * (long long)v71 + 1);
                                    const bool v86 = v85 < v18;
                                    const bool v87 = v74 && v86;
                                    const float v88 = r0[4ll * i27 + 1];
                                    const float v89 = v87 ? b1[(long long)v85 + 35ll * (long long)v72] : (float)0;
                                    const double v90 = v87 ? b2[0] : (double)0;
                                    const double v91 = -v90;
                                    const float v92 = (float)v91;
                                    const float v93 = v92 * v88;
                                    const float v94 = v89 + v93;
                                    const int v95 = (int)(32ll * i0 + 4ll * (long long)v71 + 2);
                                    const bool v96 = v95 < v18;
                                    const bool v97 = v74 && v96;
                                    const float v98 = r0[4ll * i27 + 2];
                                    const float v99 = v97 ? b1[(long long)v95 + 35ll * (long long)v72] : (float)0;
                                    const double v100 = v97 ? b2[0] : (double)0;
                                    const double v101 = -v100;
                                    const float v102 = (float)v101;
                                    const float v103 = v102 * v98;
                                    const float v104 = v99 + v103;
                                    const int v105 = (int)(32ll * i0 + 4ll * (long long)v71 + 3);
                                    const bool v106 = v105 < v18;
                                    const bool v107 = v74 && v106;
                                    const float v108 = r0[4ll * i27 + 3];
                                    const float v109 = v107 ? b1[(long long)v105 + 35ll * (long long)v72] : (float)0;
                                    const double v110 = v107 ? b2[0] : (double)0;
                                    const double v111 = -v110;
                                    const float v112 = (float)v111;
                                    const float v113 = v112 * v108;
                                    const float v114 = v109 + v113;
                                    if (v77) { b4[(long long)v75 + 35ll * (long long)v72] = v84; bad |= stepc_not_finite(v84); }
                                    if (v87) { b4[(long long)v85 + 35ll * (long long)v72] = v94; bad |= stepc_not_finite(v94); }
                                    if (v97) { b4[(long long)v95 + 35ll * (long long)v72] = v104; bad |= stepc_not_finite(v104); }
                                    if (v107) { b4[(long long)v105 + 35ll * (long long)v72] = v114; bad |= stepc_not_finite(v114); }
                                }
                            }
                        }
                    }
                }
            }
            if (bad) *flag |= 1;
            at += 8;
            break;
        }
        case 13: {
            if (threadIdx.x < 64) {
                const unsigned thread = threadIdx.x % 64;
            double *const folded = (double *)(shared + 0) + threadIdx.x / 64 * 2;
                const float *const b0 = (const float *)stepc_global(table.word[at + 0]);
                const float *const b1 = (const float *)stepc_global(table.word[at + 1]);
                const float *const b2 = (const float *)stepc_global(table.word[at + 2]);
                float *const b3 = (float *)stepc_global(table.word[at + 3]);
                const long long lo = 0, hi = (long long)table.word[at + 5];
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
                const float v6 = stepc_fold<64, true>(folded, r0[0], [](float x, float y) -> float { return x + y; });
                const float v7 = b2[0];
                const float v8 = v6 + v7;
                stepc_barrier(64);
                if (thread == 0) b3[0] = v8;
            }
            at += 6;
            break;
        }
        default: { /* what is moved */
            stepc_move(table.word + at, threadIdx.x, 256);
            at += 1 + 3 * (unsigned)table.word[at];
        }
        }
        __syncthreads();
    }
}

