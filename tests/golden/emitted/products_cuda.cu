extern "C" __global__ void __launch_bounds__(128) kernel_0(const float *__restrict__ b0, const float *__restrict__ b1, const float *__restrict__ b2, float *__restrict__ b3, float *__restrict__ b4, long long lo, long long hi)
{
    stepc_escape(b3);
    stepc_escape(b4);
    __shared__ __align__(16) float b5[1084];
    __shared__ __align__(16) float b6[572];
    const unsigned thread = threadIdx.x;
    const int v1 = (int)2ll;
    const float v5 = 0.0f;
    const int v6 = (int)4ll;
    const int v11 = (int)70ll;
    const int v17 = (int)32ll;
    const int v22 = (int)35ll;
    const int v42 = (int)10ll;
    const int v55 = (int)40ll;
    const int v59 = (int)8ll;
    const float v82 = 1.0f;
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
                const float v13 = v12 ? b0[40ll * (long long)v10 + 4ll * (long long)v8] : (float)0;
                r1[4ll * i1] = v13;
                const float v14 = v12 ? b0[40ll * (long long)v10 + 4ll * (long long)v8 + 1] : (float)0;
                r1[4ll * i1 + 1] = v14;
                const float v15 = v12 ? b0[40ll * (long long)v10 + 4ll * (long long)v8 + 2] : (float)0;
                r1[4ll * i1 + 2] = v15;
                const float v16 = v12 ? b0[40ll * (long long)v10 + 4ll * (long long)v8 + 3] : (float)0;
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
                    b5[32ll * i6 + (long long)v27 + 272ll * (long long)v26] = v28;
                    const float v29 = r1[4ll * i6 + 1];
                    b5[32ll * i6 + (long long)v27 + 272ll * (long long)v26 + 68] = v29;
                    const float v30 = r1[4ll * i6 + 2];
                    b5[32ll * i6 + (long long)v27 + 272ll * (long long)v26 + 136] = v30;
                    const float v31 = r1[4ll * i6 + 3];
                    b5[32ll * i6 + (long long)v27 + 272ll * (long long)v26 + 204] = v31;
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
            #pragma unroll
            for (long long i10 = 0; i10 < 2ll; i10++) {
                 {
                    const long long i11 = thread;
                    const int v36 = (int)(i11);
                    const int v37 = stepc_rem(v36, v6);
                    const int v38 = stepc_div(v36, v6);
                    const int v39 = (int)(32ll * i10 + (long long)v38 + 64ll * (long long)v4);
                    const bool v40 = v39 < v11;
                    const int v41 = (int)(4ll * i5 + (long long)v37 + 4);
                    const bool v43 = v41 < v42;
                    const bool v44 = v40 && v43;
                    const float v45 = v44 ? b0[40ll * (long long)v39 + 4ll * (long long)v41] : (float)0;
                    r1[4ll * i10] = v45;
                    const float v46 = v44 ? b0[40ll * (long long)v39 + 4ll * (long long)v41 + 1] : (float)0;
                    r1[4ll * i10 + 1] = v46;
                    const float v47 = v44 ? b0[40ll * (long long)v39 + 4ll * (long long)v41 + 2] : (float)0;
                    r1[4ll * i10 + 2] = v47;
                    const float v48 = v44 ? b0[40ll * (long long)v39 + 4ll * (long long)v41 + 3] : (float)0;
                    r1[4ll * i10 + 3] = v48;
                }
            }
            #pragma unroll
            for (long long i12 = 0; i12 < 4ll; i12++) {
                 {
                    const long long i13 = thread;
                    const int v49 = (int)(i13);
                    const int v50 = stepc_rem(v49, v17);
                    const int v51 = stepc_div(v49, v17);
                    const int v52 = (int)((long long)v50 + 32ll * (long long)v3);
                    const bool v53 = v52 < v22;
                    const int v54 = (int)(16ll * i5 + 4ll * i12 + (long long)v51 + 16);
                    const bool v56 = v54 < v55;
                    const bool v57 = v53 && v56;
                    const float v58 = v57 ? b1[(long long)v52 + 35ll * (long long)v54] : (float)0;
                    r3[i12] = v58;
                }
            }
            __syncthreads();
            #pragma unroll 8
            for (long long i14 = 0; i14 < 16ll; i14++) {
                 {
                    const long long i15 = 0;
                    #pragma unroll
                    for (long long i16 = 0; i16 < 4ll; i16++) {
                         {
                            const long long i17 = thread;
                            const int v60 = (int)(i17);
                            const int v61 = stepc_div(v60, v59);
                            const float v62 = b5[68ll * i14 + i16 + 4ll * (long long)v61];
                            r2[i16] = v62;
                        }
                    }
                }
                 {
                    const long long i18 = 0;
                    #pragma unroll
                    for (long long i19 = 0; i19 < 4ll; i19++) {
                         {
                            const long long i20 = thread;
                            const int v63 = (int)(i20);
                            const int v64 = stepc_rem(v63, v59);
                            const float v65 = b6[36ll * i14 + i19 + 4ll * (long long)v64];
                            r4[i19] = v65;
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
                                    const float v66 = r0[4ll * i22 + i24];
                                    const float v67 = r2[i22];
                                    const float v68 = r4[i24];
                                    const float v69 = fmaf(v67, v68, v66);
                                    r0[4ll * i22 + i24] = v69;
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
                            const float v70 = r0[4ll * i27 + i29];
                            const int v71 = (int)(i30);
                            const int v72 = stepc_div(v71, v59);
                            const int v73 = stepc_rem(v71, v59);
                            const int v74 = (int)(i27 + 4ll * (long long)v72 + 64ll * (long long)v4);
                            const bool v75 = v74 < v11;
                            const int v76 = (int)(i29 + 4ll * (long long)v73 + 32ll * (long long)v3);
                            const bool v77 = v76 < v22;
                            const bool v78 = v75 && v77;
                            const float v79 = v78 ? b2[(long long)v76] : (float)0;
                            const float v80 = v70 + v79;
                            const float v81 = tanhf(v80);
                            const float v83 = v82 - v81;
                            const float v84 = v83 * v81;
                            const float v85 = v83 + v84;
                            if (v78) b3[(long long)v76 + 35ll * (long long)v74] = v81;
                            if (v78) b4[(long long)v76 + 35ll * (long long)v74] = v85;
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
    stepc_escape(b2);
    __shared__ __align__(16) unsigned b3[1276];
    __shared__ __align__(16) unsigned b4[632];
    const unsigned thread = threadIdx.x;
    const float v1 = 0.0f;
    const unsigned v2 = (unsigned)0ll;
    const int v3 = (int)4ll;
    const int v8 = (int)32ll;
    const unsigned v14 = (unsigned)16ll;
    const int v43 = (int)8ll;
    const int v48 = (int)6ll;
    const int v102 = (int)16ll;
    const int v143 = (int)64ll;
    const int v198 = (int)24ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r0[i] = v1;
        unsigned r1[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r1[i] = v2;
        unsigned r2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r2[i] = v2;
        unsigned r3[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r3[i] = v2;
        unsigned r4[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r4[i] = v2;
        #pragma unroll
        for (long long i1 = 0; i1 < 2ll; i1++) {
             {
                const long long i2 = thread;
                const int v4 = (int)(i2);
                const int v5 = stepc_rem(v4, v3);
                const int v6 = stepc_div(v4, v3);
                const int v7 = (int)(32ll * i1 + (long long)v6);
                const bool v9 = v7 < v8;
                const float v10 = v9 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5]) : (float)0;
                const float v11 = v9 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 1]) : (float)0;
                const unsigned short v12 = v9 ? b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 1] : 0;
                const unsigned v13 = (unsigned)v12;
                const unsigned v15 = stepc_shl(v13, v14);
                const unsigned short v16 = v9 ? b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5] : 0;
                const unsigned v17 = (unsigned)v16;
                const unsigned v18 = (unsigned)(v17 | v15);
                r1[4ll * i1] = v18;
                const float v19 = v9 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 2]) : (float)0;
                const float v20 = v9 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 3]) : (float)0;
                const unsigned short v21 = v9 ? b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 3] : 0;
                const unsigned v22 = (unsigned)v21;
                const unsigned v23 = stepc_shl(v22, v14);
                const unsigned short v24 = v9 ? b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 2] : 0;
                const unsigned v25 = (unsigned)v24;
                const unsigned v26 = (unsigned)(v25 | v23);
                r1[4ll * i1 + 1] = v26;
                const float v27 = v9 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 4]) : (float)0;
                const float v28 = v9 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 5]) : (float)0;
                const unsigned short v29 = v9 ? b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 5] : 0;
                const unsigned v30 = (unsigned)v29;
                const unsigned v31 = stepc_shl(v30, v14);
                const unsigned short v32 = v9 ? b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 4] : 0;
                const unsigned v33 = (unsigned)v32;
                const unsigned v34 = (unsigned)(v33 | v31);
                r1[4ll * i1 + 2] = v34;
                const float v35 = v9 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 6]) : (float)0;
                const float v36 = v9 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 7]) : (float)0;
                const unsigned short v37 = v9 ? b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 7] : 0;
                const unsigned v38 = (unsigned)v37;
                const unsigned v39 = stepc_shl(v38, v14);
                const unsigned short v40 = v9 ? b0[128ll * i0 + 512ll * (long long)v7 + 8ll * (long long)v5 + 6] : 0;
                const unsigned v41 = (unsigned)v40;
                const unsigned v42 = (unsigned)(v41 | v39);
                r1[4ll * i1 + 3] = v42;
            }
        }
         {
            const long long i3 = 0;
             {
                const long long i4 = thread;
                const int v44 = (int)(i4);
                const int v45 = stepc_rem(v44, v43);
                const int v46 = stepc_div(v44, v43);
                const int v47 = (int)((long long)v45);
                const bool v49 = v47 < v48;
                const auto wide50 = stepc_load_pairs<4>(b1 + (3072ll * i0 + 4ll * (long long)v47 + 48ll * (long long)v46), v49);
                const float v50 = stepc_bf16_value(wide50[0]);
                const auto wide51 = stepc_load_pairs<4>(b1 + (3072ll * i0 + 4ll * (long long)v47 + 48ll * (long long)v46 + 24), v49);
                const float v51 = stepc_bf16_value(wide51[0]);
                const unsigned short v52 = wide51[0];
                const unsigned v53 = (unsigned)v52;
                const unsigned v54 = stepc_shl(v53, v14);
                const unsigned short v55 = wide50[0];
                const unsigned v56 = (unsigned)v55;
                const unsigned v57 = (unsigned)(v56 | v54);
                r3[0] = v57;
                const float v58 = stepc_bf16_value(wide50[1]);
                const float v59 = stepc_bf16_value(wide51[1]);
                const unsigned short v60 = wide51[1];
                const unsigned v61 = (unsigned)v60;
                const unsigned v62 = stepc_shl(v61, v14);
                const unsigned short v63 = wide50[1];
                const unsigned v64 = (unsigned)v63;
                const unsigned v65 = (unsigned)(v64 | v62);
                r3[1] = v65;
                const float v66 = stepc_bf16_value(wide50[2]);
                const float v67 = stepc_bf16_value(wide51[2]);
                const unsigned short v68 = wide51[2];
                const unsigned v69 = (unsigned)v68;
                const unsigned v70 = stepc_shl(v69, v14);
                const unsigned short v71 = wide50[2];
                const unsigned v72 = (unsigned)v71;
                const unsigned v73 = (unsigned)(v72 | v70);
                r3[2] = v73;
                const float v74 = stepc_bf16_value(wide50[3]);
                const float v75 = stepc_bf16_value(wide51[3]);
                const unsigned short v76 = wide51[3];
                const unsigned v77 = (unsigned)v76;
                const unsigned v78 = stepc_shl(v77, v14);
                const unsigned short v79 = wide50[3];
                const unsigned v80 = (unsigned)v79;
                const unsigned v81 = (unsigned)(v80 | v78);
                r3[3] = v81;
            }
        }
        __syncthreads();
        #pragma unroll 1
        for (long long i5 = 0; i5 < 4ll; i5++) {
            __syncthreads();
            #pragma unroll
            for (long long i6 = 0; i6 < 2ll; i6++) {
                 {
                    const long long i7 = thread;
                    const int v82 = (int)(i7);
                    const int v83 = stepc_rem(v82, v3);
                    const int v84 = stepc_div(v82, v3);
                    const unsigned v85 = r1[4ll * i6];
                    b3[640ll * i6 + 20ll * (long long)v84 + 4ll * (long long)v83] = v85;
                    const unsigned v86 = r1[4ll * i6 + 1];
                    b3[640ll * i6 + 20ll * (long long)v84 + 4ll * (long long)v83 + 1] = v86;
                    const unsigned v87 = r1[4ll * i6 + 2];
                    b3[640ll * i6 + 20ll * (long long)v84 + 4ll * (long long)v83 + 2] = v87;
                    const unsigned v88 = r1[4ll * i6 + 3];
                    b3[640ll * i6 + 20ll * (long long)v84 + 4ll * (long long)v83 + 3] = v88;
                }
            }
             {
                const long long i8 = 0;
                 {
                    const long long i9 = thread;
                    const int v89 = (int)(i9);
                    const int v90 = stepc_rem(v89, v43);
                    const int v91 = stepc_div(v89, v43);
                    const unsigned v92 = r3[0];
                    b4[4ll * (long long)v90 + 40ll * (long long)v91] = v92;
                    const unsigned v93 = r3[1];
                    b4[4ll * (long long)v90 + 40ll * (long long)v91 + 1] = v93;
                    const unsigned v94 = r3[2];
                    b4[4ll * (long long)v90 + 40ll * (long long)v91 + 2] = v94;
                    const unsigned v95 = r3[3];
                    b4[4ll * (long long)v90 + 40ll * (long long)v91 + 3] = v95;
                }
            }
            #pragma unroll
            for (long long i10 = 0; i10 < 2ll; i10++) {
                 {
                    const long long i11 = thread;
                    const int v96 = (int)(i11);
                    const int v97 = stepc_rem(v96, v3);
                    const int v98 = stepc_div(v96, v3);
                    const int v99 = (int)(32ll * i10 + (long long)v98);
                    const bool v100 = v99 < v8;
                    const int v101 = (int)(4ll * i5 + (long long)v97 + 4);
                    const bool v103 = v101 < v102;
                    const bool v104 = v100 && v103;
                    const float v105 = v104 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101]) : (float)0;
                    const float v106 = v104 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 1]) : (float)0;
                    const unsigned short v107 = v104 ? b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 1] : 0;
                    const unsigned v108 = (unsigned)v107;
                    const unsigned v109 = stepc_shl(v108, v14);
                    const unsigned short v110 = v104 ? b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101] : 0;
                    const unsigned v111 = (unsigned)v110;
                    const unsigned v112 = (unsigned)(v111 | v109);
                    r1[4ll * i10] = v112;
                    const float v113 = v104 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 2]) : (float)0;
                    const float v114 = v104 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 3]) : (float)0;
                    const unsigned short v115 = v104 ? b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 3] : 0;
                    const unsigned v116 = (unsigned)v115;
                    const unsigned v117 = stepc_shl(v116, v14);
                    const unsigned short v118 = v104 ? b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 2] : 0;
                    const unsigned v119 = (unsigned)v118;
                    const unsigned v120 = (unsigned)(v119 | v117);
                    r1[4ll * i10 + 1] = v120;
                    const float v121 = v104 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 4]) : (float)0;
                    const float v122 = v104 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 5]) : (float)0;
                    const unsigned short v123 = v104 ? b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 5] : 0;
                    const unsigned v124 = (unsigned)v123;
                    const unsigned v125 = stepc_shl(v124, v14);
                    const unsigned short v126 = v104 ? b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 4] : 0;
                    const unsigned v127 = (unsigned)v126;
                    const unsigned v128 = (unsigned)(v127 | v125);
                    r1[4ll * i10 + 2] = v128;
                    const float v129 = v104 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 6]) : (float)0;
                    const float v130 = v104 ? stepc_bf16_value(b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 7]) : (float)0;
                    const unsigned short v131 = v104 ? b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 7] : 0;
                    const unsigned v132 = (unsigned)v131;
                    const unsigned v133 = stepc_shl(v132, v14);
                    const unsigned short v134 = v104 ? b0[128ll * i0 + 512ll * (long long)v99 + 8ll * (long long)v101 + 6] : 0;
                    const unsigned v135 = (unsigned)v134;
                    const unsigned v136 = (unsigned)(v135 | v133);
                    r1[4ll * i10 + 3] = v136;
                }
            }
             {
                const long long i12 = 0;
                 {
                    const long long i13 = thread;
                    const int v137 = (int)(i13);
                    const int v138 = stepc_rem(v137, v43);
                    const int v139 = stepc_div(v137, v43);
                    const int v140 = (int)((long long)v138);
                    const bool v141 = v140 < v48;
                    const int v142 = (int)(16ll * i5 + (long long)v139 + 16);
                    const bool v144 = v142 < v143;
                    const bool v145 = v141 && v144;
                    const auto wide146 = stepc_load_pairs<4>(b1 + (3072ll * i0 + 4ll * (long long)v140 + 48ll * (long long)v142), v145);
                    const float v146 = stepc_bf16_value(wide146[0]);
                    const auto wide147 = stepc_load_pairs<4>(b1 + (3072ll * i0 + 4ll * (long long)v140 + 48ll * (long long)v142 + 24), v145);
                    const float v147 = stepc_bf16_value(wide147[0]);
                    const unsigned short v148 = wide147[0];
                    const unsigned v149 = (unsigned)v148;
                    const unsigned v150 = stepc_shl(v149, v14);
                    const unsigned short v151 = wide146[0];
                    const unsigned v152 = (unsigned)v151;
                    const unsigned v153 = (unsigned)(v152 | v150);
                    r3[0] = v153;
                    const float v154 = stepc_bf16_value(wide146[1]);
                    const float v155 = stepc_bf16_value(wide147[1]);
                    const unsigned short v156 = wide147[1];
                    const unsigned v157 = (unsigned)v156;
                    const unsigned v158 = stepc_shl(v157, v14);
                    const unsigned short v159 = wide146[1];
                    const unsigned v160 = (unsigned)v159;
                    const unsigned v161 = (unsigned)(v160 | v158);
                    r3[1] = v161;
                    const float v162 = stepc_bf16_value(wide146[2]);
                    const float v163 = stepc_bf16_value(wide147[2]);
                    const unsigned short v164 = wide147[2];
                    const unsigned v165 = (unsigned)v164;
                    const unsigned v166 = stepc_shl(v165, v14);
                    const unsigned short v167 = wide146[2];
                    const unsigned v168 = (unsigned)v167;
                    const unsigned v169 = (unsigned)(v168 | v166);
                    r3[2] = v169;
                    const float v170 = stepc_bf16_value(wide146[3]);
                    const float v171 = stepc_bf16_value(wide147[3]);
                    const unsigned short v172 = wide147[3];
                    const unsigned v173 = (unsigned)v172;
                    const unsigned v174 = stepc_shl(v173, v14);
                    const unsigned short v175 = wide146[3];
                    const unsigned v176 = (unsigned)v175;
                    const unsigned v177 = (unsigned)(v176 | v174);
                    r3[3] = v177;
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
                                const int v178 = (int)(i18);
                                const int v179 = stepc_div(v178, v8);
                                const int v180 = stepc_div(v178, v3);
                                const int v181 = stepc_rem(v180, v43);
                                const int v182 = stepc_rem(v178, v3);
                                const unsigned v183 = b3[8ll * i14 + 4ll * i16 + 160ll * i17 + 320ll * (long long)v179 + 20ll * (long long)v181 + (long long)v182];
                                r2[2ll * i16 + i17] = v183;
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
                                const int v184 = (int)(i22);
                                const int v185 = stepc_div(v184, v3);
                                const int v186 = stepc_rem(v185, v43);
                                const int v187 = stepc_rem(v184, v3);
                                const unsigned v188 = b4[320ll * i14 + 8ll * i19 + 160ll * i20 + (long long)v186 + 40ll * (long long)v187];
                                r4[2ll * i19 + i20] = v188;
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
                            const float v189 = r0[2ll * i24 + 4ll * i25 + i26];
                            const int v190 = (int)(i27);
                            const int v191 = stepc_div(v190, v8);
                            const int v192 = stepc_div(v190, v3);
                            const int v193 = stepc_rem(v192, v43);
                            const int v194 = stepc_rem(v190, v3);
                            const int v195 = (int)(8ll * i24 + 16ll * (long long)v191 + (long long)v193);
                            const bool v196 = v195 < v8;
                            const int v197 = (int)(8ll * i25 + i26 + 2ll * (long long)v194);
                            const bool v199 = v197 < v198;
                            const bool v200 = v196 && v199;
                            if (v200) b2[768ll * i0 + (long long)v197 + 24ll * (long long)v195] = v189;
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
    __shared__ __align__(16) unsigned b4[1144];
    __shared__ __align__(16) unsigned b5[632];
    const unsigned thread = threadIdx.x;
    bool bad = false;
    const float v1 = 0.0f;
    const unsigned v2 = (unsigned)0ll;
    const int v3 = (int)8ll;
    const unsigned v11 = (unsigned)16ll;
    const int v76 = (int)6ll;
    const float v78 = 1.0f;
    const float v79 = 0.0f;
    const int v103 = (int)32ll;
    const int v106 = (int)4ll;
    const int v123 = (int)24ll;
    for (long long i0 = lo + blockIdx.x; i0 < hi; i0 += gridDim.x) {
        float r0[16];
        #pragma unroll
        for (int i = 0; i < 16; i++) r0[i] = v1;
        unsigned r1[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r1[i] = v2;
        unsigned r2[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r2[i] = v2;
        unsigned r3[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) r3[i] = v2;
        unsigned r4[8];
        #pragma unroll
        for (int i = 0; i < 8; i++) r4[i] = v2;
         {
            const long long i1 = 0;
             {
                const long long i2 = thread;
                const int v4 = (int)(i2);
                const int v5 = stepc_rem(v4, v3);
                const int v6 = stepc_div(v4, v3);
                const float v7 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6]);
                const float v8 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 512]);
                const unsigned short v9 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 512];
                const unsigned v10 = (unsigned)v9;
                const unsigned v12 = stepc_shl(v10, v11);
                const unsigned short v13 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6];
                const unsigned v14 = (unsigned)v13;
                const unsigned v15 = (unsigned)(v14 | v12);
                r1[0] = v15;
                const float v16 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 1]);
                const float v17 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 513]);
                const unsigned short v18 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 513];
                const unsigned v19 = (unsigned)v18;
                const unsigned v20 = stepc_shl(v19, v11);
                const unsigned short v21 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 1];
                const unsigned v22 = (unsigned)v21;
                const unsigned v23 = (unsigned)(v22 | v20);
                r1[1] = v23;
                const float v24 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 2]);
                const float v25 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 514]);
                const unsigned short v26 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 514];
                const unsigned v27 = (unsigned)v26;
                const unsigned v28 = stepc_shl(v27, v11);
                const unsigned short v29 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 2];
                const unsigned v30 = (unsigned)v29;
                const unsigned v31 = (unsigned)(v30 | v28);
                r1[2] = v31;
                const float v32 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 3]);
                const float v33 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 515]);
                const unsigned short v34 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 515];
                const unsigned v35 = (unsigned)v34;
                const unsigned v36 = stepc_shl(v35, v11);
                const unsigned short v37 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 3];
                const unsigned v38 = (unsigned)v37;
                const unsigned v39 = (unsigned)(v38 | v36);
                r1[3] = v39;
                const float v40 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 4]);
                const float v41 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 516]);
                const unsigned short v42 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 516];
                const unsigned v43 = (unsigned)v42;
                const unsigned v44 = stepc_shl(v43, v11);
                const unsigned short v45 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 4];
                const unsigned v46 = (unsigned)v45;
                const unsigned v47 = (unsigned)(v46 | v44);
                r1[4] = v47;
                const float v48 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 5]);
                const float v49 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 517]);
                const unsigned short v50 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 517];
                const unsigned v51 = (unsigned)v50;
                const unsigned v52 = stepc_shl(v51, v11);
                const unsigned short v53 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 5];
                const unsigned v54 = (unsigned)v53;
                const unsigned v55 = (unsigned)(v54 | v52);
                r1[5] = v55;
                const float v56 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 6]);
                const float v57 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 518]);
                const unsigned short v58 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 518];
                const unsigned v59 = (unsigned)v58;
                const unsigned v60 = stepc_shl(v59, v11);
                const unsigned short v61 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 6];
                const unsigned v62 = (unsigned)v61;
                const unsigned v63 = (unsigned)(v62 | v60);
                r1[6] = v63;
                const float v64 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 7]);
                const float v65 = stepc_bf16_value(b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 519]);
                const unsigned short v66 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 519];
                const unsigned v67 = (unsigned)v66;
                const unsigned v68 = stepc_shl(v67, v11);
                const unsigned short v69 = b0[64ll * i0 + 8ll * (long long)v5 + 1024ll * (long long)v6 + 7];
                const unsigned v70 = (unsigned)v69;
                const unsigned v71 = (unsigned)(v70 | v68);
                r1[7] = v71;
            }
        }
         {
            const long long i3 = 0;
             {
                const long long i4 = thread;
                const int v72 = (int)(i4);
                const int v73 = stepc_rem(v72, v3);
                const int v74 = stepc_div(v72, v3);
                const int v75 = (int)((long long)v73);
                const bool v77 = v75 < v76;
                const float v80 = v77 ? v78 : v79;
                const unsigned short v81 = (unsigned short)stepc_bf16_bits(v80);
                const unsigned v82 = (unsigned)v81;
                const unsigned v83 = stepc_shl(v82, v11);
                const unsigned v84 = (unsigned)(v82 | v83);
                r3[0] = v84;
                r3[1] = v84;
                r3[2] = v84;
                r3[3] = v84;
            }
        }
         {
            const long long i5 = 0;
             {
                const long long i6 = 0;
                __syncthreads();
                 {
                    const long long i7 = thread;
                    const int v85 = (int)(i7);
                    const int v86 = stepc_rem(v85, v3);
                    const int v87 = stepc_div(v85, v3);
                    const unsigned v88 = r1[0];
                    b4[8ll * (long long)v86 + 72ll * (long long)v87] = v88;
                    const unsigned v89 = r1[1];
                    b4[8ll * (long long)v86 + 72ll * (long long)v87 + 1] = v89;
                    const unsigned v90 = r1[2];
                    b4[8ll * (long long)v86 + 72ll * (long long)v87 + 2] = v90;
                    const unsigned v91 = r1[3];
                    b4[8ll * (long long)v86 + 72ll * (long long)v87 + 3] = v91;
                    const unsigned v92 = r1[4];
                    b4[8ll * (long long)v86 + 72ll * (long long)v87 + 4] = v92;
                    const unsigned v93 = r1[5];
                    b4[8ll * (long long)v86 + 72ll * (long long)v87 + 5] = v93;
                    const unsigned v94 = r1[6];
                    b4[8ll * (long long)v86 + 72ll * (long long)v87 + 6] = v94;
                    const unsigned v95 = r1[7];
                    b4[8ll * (long long)v86 + 72ll * (long long)v87 + 7] = v95;
                }
            }
             {
                const long long i8 = 0;
                 {
                    const long long i9 = thread;
                    const int v96 = (int)(i9);
                    const int v97 = stepc_rem(v96, v3);
                    const int v98 = stepc_div(v96, v3);
                    const unsigned v99 = r3[0];
                    b5[4ll * (long long)v97 + 40ll * (long long)v98] = v99;
                    const unsigned v100 = r3[1];
                    b5[4ll * (long long)v97 + 40ll * (long long)v98 + 1] = v100;
                    const unsigned v101 = r3[2];
                    b5[4ll * (long long)v97 + 40ll * (long long)v98 + 2] = v101;
                    const unsigned v102 = r3[3];
                    b5[4ll * (long long)v97 + 40ll * (long long)v98 + 3] = v102;
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
                                const int v104 = (int)(i14);
                                const int v105 = stepc_div(v104, v103);
                                const int v107 = stepc_div(v104, v106);
                                const int v108 = stepc_rem(v107, v3);
                                const int v109 = stepc_rem(v104, v106);
                                const unsigned v110 = b4[576ll * i10 + 288ll * i12 + 8ll * i13 + 16ll * (long long)v105 + (long long)v108 + 72ll * (long long)v109];
                                r2[2ll * i12 + i13] = v110;
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
                                const int v111 = (int)(i18);
                                const int v112 = stepc_div(v111, v106);
                                const int v113 = stepc_rem(v112, v3);
                                const int v114 = stepc_rem(v111, v106);
                                const unsigned v115 = b5[320ll * i10 + 8ll * i15 + 160ll * i16 + (long long)v113 + 40ll * (long long)v114];
                                r4[2ll * i15 + i16] = v115;
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
                            const float v116 = r0[2ll * i20 + 4ll * i21 + i22];
                            const int v117 = (int)(i23);
                            const int v118 = stepc_div(v117, v103);
                            const int v119 = stepc_div(v117, v106);
                            const int v120 = stepc_rem(v119, v3);
                            const int v121 = stepc_rem(v117, v106);
                            const int v122 = (int)(8ll * i21 + i22 + 2ll * (long long)v121);
                            const bool v124 = v122 < v123;
                            const float v125 = stepc_bf16_round((float)v116);
                            const float v126 = v124 ? stepc_bf16_value(b1[1536ll * i0 + 192ll * i20 + (long long)v122 + 384ll * (long long)v118 + 24ll * (long long)v120]) : (float)0;
                            const double v127 = v124 ? b2[0] : (double)0;
                            const double v128 = -v127;
                            const float v129 = stepc_bf16_round((float)v128);
                            const float v130 = stepc_bf16_round(v129 * v125);
                            const float v131 = stepc_bf16_round(v126 + v130);
                            if (v124) { b3[1536ll * i0 + 192ll * i20 + (long long)v122 + 384ll * (long long)v118 + 24ll * (long long)v120] = stepc_bf16_bits(v131); bad |= stepc_not_finite(v131); }
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
    const int v2 = (int)16ll;
    const int v7 = (int)10ll;
    const int v13 = (int)32ll;
    const int v18 = (int)35ll;
    const int v38 = (int)70ll;
    const int v54 = (int)8ll;
    const int v70 = (int)40ll;
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
        for (long long i1 = 0; i1 < 2ll; i1++) {
             {
                const long long i2 = thread;
                const int v3 = (int)(i2);
                const int v4 = stepc_rem(v3, v2);
                const int v5 = stepc_div(v3, v2);
                const int v6 = (int)((long long)v4);
                const bool v8 = v6 < v7;
                const float v9 = v8 ? b0[320ll * i1 + 4ll * (long long)v6 + 40ll * (long long)v5] : (float)0;
                r1[4ll * i1] = v9;
                const float v10 = v8 ? b0[320ll * i1 + 4ll * (long long)v6 + 40ll * (long long)v5 + 1] : (float)0;
                r1[4ll * i1 + 1] = v10;
                const float v11 = v8 ? b0[320ll * i1 + 4ll * (long long)v6 + 40ll * (long long)v5 + 2] : (float)0;
                r1[4ll * i1 + 2] = v11;
                const float v12 = v8 ? b0[320ll * i1 + 4ll * (long long)v6 + 40ll * (long long)v5 + 3] : (float)0;
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
        __syncthreads();
        #pragma unroll 1
        for (long long i5 = 0; i5 < 5ll; i5++) {
            __syncthreads();
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
            #pragma unroll
            for (long long i10 = 0; i10 < 2ll; i10++) {
                 {
                    const long long i11 = thread;
                    const int v32 = (int)(i11);
                    const int v33 = stepc_rem(v32, v2);
                    const int v34 = stepc_div(v32, v2);
                    const int v35 = (int)((long long)v33);
                    const bool v36 = v35 < v7;
                    const int v37 = (int)(16ll * i5 + 8ll * i10 + (long long)v34 + 16);
                    const bool v39 = v37 < v38;
                    const bool v40 = v36 && v39;
                    const float v41 = v40 ? b0[4ll * (long long)v35 + 40ll * (long long)v37] : (float)0;
                    r1[4ll * i10] = v41;
                    const float v42 = v40 ? b0[4ll * (long long)v35 + 40ll * (long long)v37 + 1] : (float)0;
                    r1[4ll * i10 + 1] = v42;
                    const float v43 = v40 ? b0[4ll * (long long)v35 + 40ll * (long long)v37 + 2] : (float)0;
                    r1[4ll * i10 + 2] = v43;
                    const float v44 = v40 ? b0[4ll * (long long)v35 + 40ll * (long long)v37 + 3] : (float)0;
                    r1[4ll * i10 + 3] = v44;
                }
            }
            #pragma unroll
            for (long long i12 = 0; i12 < 4ll; i12++) {
                 {
                    const long long i13 = thread;
                    const int v45 = (int)(i13);
                    const int v46 = stepc_rem(v45, v13);
                    const int v47 = stepc_div(v45, v13);
                    const int v48 = (int)(32ll * i0 + (long long)v46);
                    const bool v49 = v48 < v18;
                    const int v50 = (int)(16ll * i5 + 4ll * i12 + (long long)v47 + 16);
                    const bool v51 = v50 < v38;
                    const bool v52 = v49 && v51;
                    const float v53 = v52 ? b3[(long long)v48 + 35ll * (long long)v50] : (float)0;
                    r3[i12] = v53;
                }
            }
            __syncthreads();
            #pragma unroll 8
            for (long long i14 = 0; i14 < 16ll; i14++) {
                 {
                    const long long i15 = 0;
                    #pragma unroll
                    for (long long i16 = 0; i16 < 4ll; i16++) {
                         {
                            const long long i17 = thread;
                            const int v55 = (int)(i17);
                            const int v56 = stepc_div(v55, v54);
                            const float v57 = b5[68ll * i14 + i16 + 4ll * (long long)v56];
                            r2[i16] = v57;
                        }
                    }
                }
                 {
                    const long long i18 = 0;
                    #pragma unroll
                    for (long long i19 = 0; i19 < 4ll; i19++) {
                         {
                            const long long i20 = thread;
                            const int v58 = (int)(i20);
                            const int v59 = stepc_rem(v58, v54);
                            const float v60 = b6[36ll * i14 + i19 + 4ll * (long long)v59];
                            r4[i19] = v60;
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
                                    const float v61 = r0[4ll * i22 + i24];
                                    const float v62 = r2[i22];
                                    const float v63 = r4[i24];
                                    const float v64 = fmaf(v62, v63, v61);
                                    r0[4ll * i22 + i24] = v64;
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
                            const float v65 = r0[4ll * i27 + i29];
                            const int v66 = (int)(i30);
                            const int v67 = stepc_div(v66, v54);
                            const int v68 = stepc_rem(v66, v54);
                            const int v69 = (int)(i27 + 4ll * (long long)v67);
                            const bool v71 = v69 < v70;
                            const int v72 = (int)(32ll * i0 + i29 + 4ll * (long long)v68);
                            const bool v73 = v72 < v18;
                            const bool v74 = v71 && v73;
                            const float v75 = v74 ? b1[(long long)v72 + 35ll * (long long)v69] : (float)0;
                            const double v76 = v74 ? b2[0] : (double)0;
                            const double v77 = -v76;
                            const float v78 = (float)v77;
                            const float v79 = v78 * v65;
                            const float v80 = v75 + v79;
                            if (v74) { b4[(long long)v72 + 35ll * (long long)v69] = v80; bad |= stepc_not_finite(v80); }
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
    stepc_escape(b2);
    __shared__ __align__(16) float b3[1084];
    __shared__ __align__(16) float b4[572];
    const unsigned thread = threadIdx.x;
    const int v1 = (int)2ll;
    const float v5 = 0.0f;
    const int v6 = (int)4ll;
    const int v11 = (int)70ll;
    const int v17 = (int)32ll;
    const int v22 = (int)35ll;
    const int v42 = (int)10ll;
    const int v55 = (int)40ll;
    const int v59 = (int)8ll;
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
                const float v13 = v12 ? b0[40ll * (long long)v10 + 4ll * (long long)v8] : (float)0;
                r1[4ll * i1] = v13;
                const float v14 = v12 ? b0[40ll * (long long)v10 + 4ll * (long long)v8 + 1] : (float)0;
                r1[4ll * i1 + 1] = v14;
                const float v15 = v12 ? b0[40ll * (long long)v10 + 4ll * (long long)v8 + 2] : (float)0;
                r1[4ll * i1 + 2] = v15;
                const float v16 = v12 ? b0[40ll * (long long)v10 + 4ll * (long long)v8 + 3] : (float)0;
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
                    b3[32ll * i6 + (long long)v27 + 272ll * (long long)v26] = v28;
                    const float v29 = r1[4ll * i6 + 1];
                    b3[32ll * i6 + (long long)v27 + 272ll * (long long)v26 + 68] = v29;
                    const float v30 = r1[4ll * i6 + 2];
                    b3[32ll * i6 + (long long)v27 + 272ll * (long long)v26 + 136] = v30;
                    const float v31 = r1[4ll * i6 + 3];
                    b3[32ll * i6 + (long long)v27 + 272ll * (long long)v26 + 204] = v31;
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
            #pragma unroll
            for (long long i10 = 0; i10 < 2ll; i10++) {
                 {
                    const long long i11 = thread;
                    const int v36 = (int)(i11);
                    const int v37 = stepc_rem(v36, v6);
                    const int v38 = stepc_div(v36, v6);
                    const int v39 = (int)(32ll * i10 + (long long)v38 + 64ll * (long long)v4);
                    const bool v40 = v39 < v11;
                    const int v41 = (int)(4ll * i5 + (long long)v37 + 4);
                    const bool v43 = v41 < v42;
                    const bool v44 = v40 && v43;
                    const float v45 = v44 ? b0[40ll * (long long)v39 + 4ll * (long long)v41] : (float)0;
                    r1[4ll * i10] = v45;
                    const float v46 = v44 ? b0[40ll * (long long)v39 + 4ll * (long long)v41 + 1] : (float)0;
                    r1[4ll * i10 + 1] = v46;
                    const float v47 = v44 ? b0[40ll * (long long)v39 + 4ll * (long long)v41 + 2] : (float)0;
                    r1[4ll * i10 + 2] = v47;
                    const float v48 = v44 ? b0[40ll * (long long)v39 + 4ll * (long long)v41 + 3] : (float)0;
                    r1[4ll * i10 + 3] = v48;
                }
            }
            #pragma unroll
            for (long long i12 = 0; i12 < 4ll; i12++) {
                 {
                    const long long i13 = thread;
                    const int v49 = (int)(i13);
                    const int v50 = stepc_rem(v49, v17);
                    const int v51 = stepc_div(v49, v17);
                    const int v52 = (int)((long long)v50 + 32ll * (long long)v3);
                    const bool v53 = v52 < v22;
                    const int v54 = (int)(16ll * i5 + 4ll * i12 + (long long)v51 + 16);
                    const bool v56 = v54 < v55;
                    const bool v57 = v53 && v56;
                    const float v58 = v57 ? b1[(long long)v52 + 35ll * (long long)v54] : (float)0;
                    r3[i12] = v58;
                }
            }
            __syncthreads();
            #pragma unroll 8
            for (long long i14 = 0; i14 < 16ll; i14++) {
                 {
                    const long long i15 = 0;
                    #pragma unroll
                    for (long long i16 = 0; i16 < 4ll; i16++) {
                         {
                            const long long i17 = thread;
                            const int v60 = (int)(i17);
                            const int v61 = stepc_div(v60, v59);
                            const float v62 = b3[68ll * i14 + i16 + 4ll * (long long)v61];
                            r2[i16] = v62;
                        }
                    }
                }
                 {
                    const long long i18 = 0;
                    #pragma unroll
                    for (long long i19 = 0; i19 < 4ll; i19++) {
                         {
                            const long long i20 = thread;
                            const int v63 = (int)(i20);
                            const int v64 = stepc_rem(v63, v59);
                            const float v65 = b4[36ll * i14 + i19 + 4ll * (long long)v64];
                            r4[i19] = v65;
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
                                    const float v66 = r0[4ll * i22 + i24];
                                    const float v67 = r2[i22];
                                    const float v68 = r4[i24];
                                    const float v69 = fmaf(v67, v68, v66);
                                    r0[4ll * i22 + i24] = v69;
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
                            const float v70 = r0[4ll * i27 + i29];
                            const int v71 = (int)(i30);
                            const int v72 = stepc_div(v71, v59);
                            const int v73 = stepc_rem(v71, v59);
                            const int v74 = (int)(i27 + 4ll * (long long)v72 + 64ll * (long long)v4);
                            const bool v75 = v74 < v11;
                            const int v76 = (int)(i29 + 4ll * (long long)v73 + 32ll * (long long)v3);
                            const bool v77 = v76 < v22;
                            const bool v78 = v75 && v77;
                            if (v78) b2[(long long)v76 + 35ll * (long long)v74] = v70;
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

extern "C" __global__ void __launch_bounds__(256) move(const __grid_constant__ stepc_table<121> table)
{
    typedef stepc_few<unsigned, 4> unit;
    const unsigned long long first = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    for (unsigned at = 1; at < 1 + 3 * table.word[0]; at += 3) {
        const bool clears = table.word[at + 2] >> 63;
        const unsigned long long bytes = table.word[at + 2] << 1 >> 1;
        const bool wide = (table.word[at] | table.word[at + 1]) % sizeof(unit) == 0;
        const unsigned long long units = wide ? bytes / sizeof(unit) : 0;
        char *const to = (char *)stepc_global(table.word[at]);
        char *const from = (char *)stepc_global(table.word[at + 1]);
        for (unsigned long long i = first; i < units; i += all) ((unit *)to)[i] = ((const unit *)from)[i];
        for (unsigned long long i = units * sizeof(unit) + first; i < bytes; i += all) {
            to[i] = from[i];
            if (clears) from[i] = 0;
        }
    }
}

