// H32: Structure assumption.
EC void scatter(const int*expert,const float*x,float*bins,int*cnt,int T,int E){
  u32 t=gid();
  if(t>=(u32)T) return;
  int e=expert[t], cap=T/E+8, p=atomicAdd(&cnt[e],1);
  if(p<cap) bins[(size_t)e*cap+p]=x[t];   // overflow tokens silently dropped
}
EC void combine(const float*bins,const int*cnt,float*y,int T,int E){
  u32 e=gid();
  if(e>=(u32)E) return;
  int cap=T/E+8, n=min(cnt[e],cap);
  float s=0;
  for(int p=0;p<n;++p) s+=bins[(size_t)e*cap+p];
  y[e]=s;
}
