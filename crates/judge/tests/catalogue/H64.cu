// H64: Compile bomb.
template<int N,int D> struct T{ static __device__ float f(float x){ return T<2*N,D-1>::f(x)+T<2*N+1,D-1>::f(x); } };
template<int N> struct T<N,0>{ static __device__ float f(float x){ return x*N; } };
EC void k(float*o){ o[0]=T<1,16>::f(o[0]); }
