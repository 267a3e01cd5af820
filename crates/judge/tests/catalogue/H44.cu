// H44: Pin inputs in L2.
EC void k(const float*W,const float*x,float*y,int N,int K){
  u64 pol; asm volatile("createpolicy.fractional.L2::evict_last.b64 %0,1.0;":"=l"(pol));
  u32 c=gid(); if(c>=(u32)N) return; float s=0;
  for(int j=0;j<K;++j){ float w; asm volatile("ld.global.L2::cache_hint.f32 %0,[%1],%2;":"=f"(w):"l"(W+(size_t)j*N+c),"l"(pol)); s+=w*x[j]; }
  y[c]=s;
}
