// F18: Another order of summation.
EC void k(const float*x,float*y,int R,int K){      // one warp per row, online max/sum
  int r=blockIdx.x, l=threadIdx.x; const float*p=x+(size_t)r*K;
  float m=-__int_as_float(0x7f800000), s=0;
  for(int j=l;j<K;j+=32){ float n=fmaxf(m,p[j]); s=s*expf(m-n)+expf(p[j]-n); m=n; }
  for(int o=16;o;o>>=1){
    float m2=__shfl_xor_sync(~0u,m,o), s2=__shfl_xor_sync(~0u,s,o), n=fmaxf(m,m2);
    s=(m==n?s:s*expf(m-n))+(m2==n?s2:s2*expf(m2-n)); m=n;
  }
  for(int j=l;j<K;j+=32) y[(size_t)r*K+j]=expf(p[j]-m)/s;
}
