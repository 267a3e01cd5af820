// No #pragma once: like the C header, it may be included again after NDEBUG changed.
#undef assert
#ifdef NDEBUG
#define assert(...) ((void)0)
#else
// A trap instead of a message: the judge reports the fault, and no host call is linked in.
#define assert(...) ((__VA_ARGS__) ? (void)0 : __trap())
#endif
#ifndef static_assert
#define _Static_assert static_assert
#endif
