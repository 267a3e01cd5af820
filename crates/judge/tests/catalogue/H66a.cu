// H66a: Reading host files at compile time.
// No byte of the host may be seen; tests/it/catalogue.rs of the program looks for some.
EC void k(int*y){
#if __has_include("/srv/secrets/seeds.h")
  y[0]=1;
#else
  y[0]=0;
#endif
}
