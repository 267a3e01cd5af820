//! Headers that the compiler gets from memory: those that kernels include and no wheel brings.

use std::ffi::CStr;

/// The header included before every source.
pub const PRELUDE_NAME: &str = "ww_prelude.h";

/// A header of a C++ name that only includes its C counterpart.
macro_rules! forward {
    ($header:literal) => {
        c_text(concat!("#include \"cstddef\"\n#include \"", $header, "\"\n\0"))
    };
}

macro_rules! file {
    ($name:literal) => {
        c_text(concat!(include_str!(concat!("../../headers/", $name)), "\0"))
    };
}

/// Name and text of each header.
pub(super) const HEADERS: &[(&CStr, &CStr)] = &[
    (c"ww_prelude.h", file!("prelude.h")),
    (c"reference.cuh", file!("reference.cuh")),
    (c"assert.h", file!("assert.h")),
    (c"float.h", file!("float.h")),
    (c"limits.h", file!("limits.h")),
    (c"math.h", file!("math.h")),
    (c"stddef.h", file!("stddef.h")),
    (c"stdint.h", file!("stdint.h")),
    (c"stdio.h", file!("stdio.h")),
    (c"stdlib.h", file!("stdlib.h")),
    (c"string.h", file!("string.h")),
    (c"inttypes.h", file!("stdint.h")),
    (c"stdbool.h", file!("empty.h")),
    (c"algorithm", file!("algorithm")),
    (c"cassert", forward!("assert.h")),
    (c"cfloat", forward!("float.h")),
    (c"climits", forward!("limits.h")),
    (c"cmath", file!("cmath")),
    (c"cstddef", file!("cstddef")),
    (c"cstdint", file!("cstdint")),
    (c"cstdio", forward!("stdio.h")),
    (c"cstdlib", forward!("stdlib.h")),
    (c"cstring", file!("cstring")),
    (c"limits", file!("limits")),
    (c"type_traits", file!("type_traits")),
    (c"utility", file!("utility")),
    (c"cuda.h", file!("cuda.h")),
    (c"cuda_runtime.h", file!("empty.h")),
    (c"cuda_runtime_api.h", file!("empty.h")),
    (c"device_launch_parameters.h", file!("empty.h")),
];

const fn c_text(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("an embedded header holds a NUL byte"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_prelude_comes_first() {
        let mut names: Vec<&str> = HEADERS.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(names[0], PRELUDE_NAME);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), HEADERS.len());
    }
}
