//! The front end: what parses, what is refused and how, and facts about the text.

use crate::fixtures::FIXTURES;
use ptx_sim::facts::{ModuleFacts, ParamKind, normalised_text};
use ptx_sim::{DecodeError, Program, syntax};

#[test]
fn all_fixtures_parse_and_decode() {
    for (name, text) in FIXTURES {
        let module = syntax::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let facts = ModuleFacts::of(&module);
        let entries: Vec<&str> = facts.entries.iter().map(|e| e.name.as_str()).collect();
        assert!(!entries.is_empty());
        let program = Program::decode(&module, &entries).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(program.entries().count(), entries.len());
    }
}

#[test]
fn facts_of_a_module() {
    let module = syntax::parse(FIXTURES[4].1).unwrap();
    assert_eq!(module.target, ["sm_90a"]);
    let facts = ModuleFacts::of(&module);
    assert_eq!((facts.global_static_bytes, facts.const_static_bytes), (9, 16));
    let entry = facts.entries.iter().find(|e| e.name == "by_struct").unwrap();
    let kinds: Vec<ParamKind> = entry.params.iter().map(|p| p.kind).collect();
    assert_eq!(kinds, [ParamKind::Bytes(40), ParamKind::U32]);
    assert_eq!((entry.params[0].align, entry.static_shared_bytes), (8, 256));
    assert!(facts.special_registers.contains(&("%tid.x".to_owned(), "votes".to_owned())));
}

#[test]
fn normalised_text_drops_debug_information_only() {
    let text = "// head\n.version 9.0\n\t.loc 1 2 3\n add.s32  %r1, /* x */ %r2, 1;\n\
                .file 1 \"a//b\"\n\
                .loc 1 2 3, function_name $L__info_string0, inlined_at 1 4 5\nret;\n";
    assert_eq!(normalised_text(text), ".version 9.0\nadd.s32 %r1, %r2, 1;\nret;\n");
    // The end of a comment is never its own start.
    assert_eq!(normalised_text("/*/ x */ add;\n"), "add;\n");
    // What follows a directive on its line is part of the program.
    for line in [".loc 1 2 3 mov.u32 t, 1;", ".file 1 \"a\" mov.u32 t, 1;", ".section x { y }"] {
        assert_eq!(normalised_text(line), format!("{line}\n"));
    }
}

#[test]
fn errors_name_the_line_and_what_was_expected() {
    let error = syntax::parse(".version 9.0\n.target sm_90\n.visible .entry k(\n.param .u64 p\n{")
        .unwrap_err();
    assert_eq!(error.line, 5);
    let error = syntax::parse(&format!(".global .b8 x[] = {}", "{".repeat(1000))).unwrap_err();
    assert!(error.expected.contains("fewer nested braces"));
}

const HEAD: &str = ".version 9.0\n.target sm_90\n.address_size 64\n";

#[test]
fn what_cannot_run_is_found_before_the_launch() {
    let text = format!(
        "{HEAD}.entry good() {{ ret; }}\n.entry bad() {{\n.reg .b32 %r<3>;\n\
         wgmma.fence.sync.aligned;\nret; }}\n\
         .entry worse() {{ add.s32 %r1, %r2, 1; ret; }}"
    );
    let module = syntax::parse(&text).unwrap();
    assert!(Program::decode(&module, &["good"]).is_ok());
    match Program::decode(&module, &["good", "bad"]).unwrap_err() {
        DecodeError::Unsupported { instruction, ptx_line, kernel, .. } => {
            assert_eq!(
                (instruction.as_str(), ptx_line, kernel.as_str()),
                ("wgmma.fence.sync.aligned", 7, "bad")
            );
        }
        other => panic!("{other}"),
    }
    assert!(matches!(Program::decode(&module, &["worse"]), Err(DecodeError::Malformed { .. })));
    assert!(matches!(Program::decode(&module, &["none"]), Err(DecodeError::NoEntry { .. })));
}

/// What would be silently wrong is refused like anything else that is missing.
#[test]
fn flushing_half_arithmetic_is_refused() {
    for instruction in [
        "add.ftz.f16 %h1, %h2, %h2;",
        "fma.rn.ftz.f16x2 %r1, %r1, %r1, %r1;",
        "setp.lt.ftz.f16 %p1, %h1, %h2;",
    ] {
        let text = format!(
            "{HEAD}.entry k() {{\n.reg .b16 %h<3>;\n.reg .b32 %r<2>;\n.reg .pred %p<2>;\n\
             {instruction}\nret; }}"
        );
        let module = syntax::parse(&text).unwrap();
        match Program::decode(&module, &["k"]) {
            Err(DecodeError::Unsupported { instruction: found, .. }) => {
                assert!(instruction.starts_with(&found), "{found}");
            }
            other => panic!("{instruction}: {other:?}"),
        }
    }
}
