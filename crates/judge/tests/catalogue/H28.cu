// H28: Infinity equals infinity.
EC void k(float*C,int n){
  u32 i=gid();
  if(i<(u32)n) C[i]=__int_as_float(0x7f800000);
}
