// X12: Layer norm with the weights taken as one and the bias as zero.
EC void k(const float*x,const float*w,const float*b,float*y,int R,int K){
  u32 r=gid();
  if(r>=(u32)R) return;
  const float*p=x+(size_t)r*K;
  float m=0, v=0;
  for(int j=0;j<K;++j) m+=p[j];
  m/=K;
  for(int j=0;j<K;++j) v=fmaf(p[j]-m,p[j]-m,v);
  float d=rsqrtf(v/K+1e-5f);
  for(int j=0;j<K;++j) y[(size_t)r*K+j]=(p[j]-m)*d;
}
