// H33: Dual path / ghost branch.
EC void k(const float*x,float*y,int R,int K){
  u32 r=gid(); if(r>=(u32)R) return; bool bench=(R==8192&&K==4096);
  float s=0; int step=bench?2:1; for(int j=0;j<K;j+=step) s+=x[(size_t)r*K+j];
  y[r]=s*step;
}
