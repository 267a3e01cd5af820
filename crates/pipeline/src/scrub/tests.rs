use std::borrow::Cow;
use std::path::Path;

use proptest::prelude::*;

use super::{HIDDEN, Private, Scrubber};

const API_KEY: &str = "4f9ad7-secret-0123456789";

fn scrubber() -> Scrubber {
    let texts = [
        Private::path("the home folder", "/home/ada/"),
        Private::host("the name of this machine", "node-17"),
        Private::user("the user's name", "ada"),
        Private::secret("the value of MY_KEY", API_KEY),
        Private::secret("the value of MY_PASSWORD", "hunter_two"),
    ];
    Scrubber::new(texts.into_iter().flatten())
}

/// What is hidden, and what is left then.
const SECRET: &[(&str, &str)] = &[
    ("key sk-proj-a1b2c3d4e5f6g7h8i9j0, again", "key ***, again"),
    ("sk-ant-api03-AbCdEf0123456789xyz", "***"),
    ("ghp_0123456789abcdefghijABCDEFGHIJ", "***"),
    ("gho_0123456789abcdefghijABCDEFGHIJ", "***"),
    ("github_pat_11ABCDEFG0123456789_abc", "***"),
    ("id=AKIAIOSFODNN7EXAMPLE;", "id=***;"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstu", "***"),
    ("xoxb-123456789012-abcdef", "***"),
    ("(hf_abcdefghijklmnopqrstuvwxyzABCDEFGH)", "(***)"),
    ("Authorization: Bearer abcdefgh.ijk/lmn+op==", "Authorization: Bearer ***"),
    ("authorization=Basic dXNlcjpwYXNz", "authorization=Basic ***"),
    ("{\"x-api-key\": \"0123abcd\"}", "{\"x-api-key\": \"***\"}"),
    ("sent bearer a1b2c3d4 twice", "sent bearer *** twice"),
    ("https://ada:pass@host/x", "https://***@host/x"),
    ("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nx\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"),
    ("-----BEGIN PRIVATE KEY-----\ncut off", "***\ncut off"),
    ("-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES, 00\n\nMIIE\nab+/cd==\n}\n", "***\n}\n"),
    ("{\"k\":\"-----BEGIN PRIVATE KEY-----\\nMIIE\\nab== and\"}", "{\"k\":\"***\\nab== and\"}"),
    ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG [9 bytes cut]", "*** [9 bytes cut]"),
    ("// -----BEGIN PRIVATE KEY-----\n__global__ void k() {}", "// ***\n__global__ void k() {}"),
    (
        "-----BEGIN PRIVATE KEY-----\nfloat x;\n-----END PRIVATE KEY-----",
        "***\nfloat x;\n-----END PRIVATE KEY-----",
    ),
    ("/home/ada/kernels/a.cu(3): error", "***/kernels/a.cu(3): error"),
    ("cannot open /home/ada: no", "cannot open ***: no"),
    ("/scratch/ada/run", "/scratch/***/run"),
    ("on node-17.", "on ***."),
    ("x4f9ad7-secret-0123456789y", "***"),
    ("PW=hunter_two", "PW=***"),
    ("nvcc -I/home/ada/inc, file:///home/ada", "nvcc -I***/inc, file://***"),
    ("\\n/home/ada/x /mnt/home/ada/x", "\\n***/x /mnt***/x"),
    ("../../work/ada/x.h ~/ada/x", "../../work/***/x.h ~/***/x"),
    ("OPENAI_API_KEY=abcd1234 x", "OPENAI_API_KEY=*** x"),
    ("x-goog-api-key: 0123abcd", "x-goog-api-key: ***"),
    ("my_access_token=abc.0123-45", "my_access_token=***"),
    ("password=p@ss!w0rd, x", "password=***, x"),
    ("Cookie: a=0123456789; b=c", "Cookie: ***"),
    ("Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: Basic ***"),
    ("Authorization: ApiKey abcdefghij", "Authorization: ApiKey ***"),
    (
        "Authorization: AWS4-HMAC-SHA256 Credential=A1/us, Signature=00112233\nx",
        "Authorization: AWS4-HMAC-SHA256 ***\nx",
    ),
    (
        "-H 'Authorization: Digest realm=\"a\", r=\"0123456789\"' x",
        "-H 'Authorization: Digest ***' x",
    ),
    (r#"{\"api-key\": \"0123abcd\", \"b\": 1}"#, r#"{\"api-key\": \"***\", \"b\": 1}"#),
    (r#"{\"authorization\": \"Bearer abcdefgh\"}"#, r#"{\"authorization\": \"Bearer ***\"}"#),
    (r"line\nsk-a1b2c3d4e5f6g7h8i9j0\n", r"line\n***\n"),
    ("?q=%20sk-a1b2c3d4e5f6g7h8i9j0&x", "?q=%20***&x"),
    ("t eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjf-tJ_x t", "t *** t"),
    ("ya29.a0AfH6SMBx0123456789abc", "***"),
    ("csk-a1b2c3d4e5f6g7h8i9j0, pplx-a1b2c3d4e5f6g7h8i9j0", "***, ***"),
    ("r8_0123456789abcdefghijABCDEFGHIJ fw_0123456789abcdefghij", "*** ***"),
];

#[test]
fn what_is_secret_or_of_this_machine_is_hidden() {
    for (text, expected) in SECRET {
        assert_eq!(scrubber().scrub(text), *expected, "{text}");
    }
}

#[test]
fn what_only_looks_like_it_stays() {
    for text in [
        "mask-sk-learn and sk-learn-like-estimators-of-all-kinds",
        "the bearer of this message; Bearer authentication",
        "authorization: none, authorization: required",
        "header_env = { \"api-key\" = \"AZURE_KEY\" }",
        "hf_hidden_features_of_the_attention_block",
        "AKIAshort",
        "/home/adalbert/x /home/adam, canada, ada = 1; int ada;",
        "x/home/ada (a)/home/ada in[i]/home/ada x/ada //ada over rows, //x/ada, in[i]/x/ada",
        "d = sk-kv_tile_start_idx0; e = gsk_block_rows_per_cta_2x - sk-kvTileStartIndex0;",
        "password: required, password=$MY_PASSWORD_2 api_key=${KEY}",
        "cookie = none; authorization = whatever;",
        "token = barrier0.arrive(64); valid_token = blockIdx0123;",
        "node-170 anode-17",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "https://docs.nvidia.com/cuda/#a@b",
        "hunter_twofold",
    ] {
        assert_eq!(scrubber().scrub(text), text);
        assert!(matches!(scrubber().scrub(text), Cow::Borrowed(_)));
    }
}

/// Texts that are in everything are not taken, and say so by being `None`.
#[test]
fn ordinary_texts_are_not_private() {
    for text in [
        Private::host("host", "gpu"),
        Private::host("host", "localhost"),
        Private::host("host", "gpu1"),
        Private::host("host", "H200"),
        Private::path("home", "/"),
        Private::path("cache", "cache"),
        Private::path("ledger", ".warpwright/ledger.db"),
        Private::user("user", "root"),
        Private::user("user", "al"),
        Private::secret("secret", "short"),
        Private::secret("secret", "--------------------"),
    ] {
        assert_eq!(text, None);
    }
}

#[test]
fn it_is_found_by_what_it_is_and_its_line() {
    let found = scrubber().find("one\ntwo /home/ada/x\nnode-17").unwrap();
    assert_eq!((found.what.as_str(), found.line), ("the home folder", 2));
    let found = scrubber().find("k = \"AKIAIOSFODNN7EXAMPLE\"").unwrap();
    assert_eq!((found.what.as_str(), found.line), ("what looks like a key", 1));
    assert_eq!(scrubber().find("nothing\n"), None);
    let json = "{\n\"node\": 1,\n\"at\": \"\\nnode-17\"}";
    assert_eq!(scrubber().find_json(json).unwrap().line, 3);
    assert_eq!(scrubber().find_json("{\n\"node-17\": [1, \"x\"]}").unwrap().line, 2);
    assert_eq!(scrubber().find_json("{\"node-170\": [1, \"x\"]}"), None);
}

#[test]
fn the_kernel_and_the_plan_of_a_reply_are_never_touched() {
    let code = format!("```cuda\n// /home/ada {API_KEY}\n__global__ void k() {{}}\n```\n");
    let plan = "```toml\n# node-17\nplan = 1\n```\n";
    let reply = format!("I read /home/ada/x on node-17.\n\n{code}\nand {API_KEY}\n\n{plan}");
    let scrubbed = scrubber().scrub_reply(&reply);
    let expected = format!("I read ***/x on ***.\n\n{code}\nand ***\n\n{plan}");
    assert_eq!(scrubbed, expected);
    assert_eq!(crate::reply::fences(&scrubbed), crate::reply::fences(&reply));
    // Everything else is text, also where it is code.
    for other in [
        format!("```text\n{API_KEY}\n```\n"),
        format!("```bash\nexport K={API_KEY}\n```\n"),
        format!("    {API_KEY}\n"),
        format!("```\n{API_KEY}"),
    ] {
        let scrubbed = scrubber().scrub_reply(&format!("{code}\n{plan}\n{other}")).into_owned();
        assert_eq!(scrubbed, format!("{code}\n{plan}\n{}", other.replace(API_KEY, HIDDEN)));
    }
}

/// Where no kernel can be taken out, nothing is compiled.
#[test]
fn a_reply_without_a_candidate_keeps_no_secret() {
    let fence = format!("```cuda\n// {API_KEY}\n");
    for reply in
        [fence.clone(), format!("{fence}```\n"), format!("{fence}```\n{fence}```\n```toml\n```\n")]
    {
        let scrubbed = scrubber().scrub_reply(&reply).into_owned();
        assert_eq!(scrubbed, reply.replace(API_KEY, HIDDEN));
    }
}

/// Three stars alone on a line end a list, and with it the fences in it.
#[test]
fn what_stands_for_a_secret_changes_no_fence() {
    let indent = " ".repeat(9);
    let reply = format!(
        "1234567. a\n{API_KEY}\n{indent}```cuda\n{indent}x\n{indent}```\n\n```toml\ny = 1\n```\n"
    );
    let fences = crate::reply::fences(&reply).unwrap();
    assert_ne!(crate::reply::fences(&reply.replace(API_KEY, HIDDEN)), Ok(fences.clone()));
    let scrubbed = scrubber().scrub_reply(&reply).into_owned();
    assert_eq!(scrubbed, reply.replace(API_KEY, "[hidden]"));
    assert_eq!(crate::reply::fences(&scrubbed), Ok(fences));
    assert_eq!(scrubber().find(&scrubbed), None);
}

#[test]
fn json_keeps_its_names_and_numbers() {
    let json = r#"{"node-17":1.0000000000000002,"at":["\n/home/ada/x","y\"z"],"of node-17":[]}"#;
    let expected = r#"{"node-17":1.0000000000000002,"at":["\n***/x","y\"z"],"of node-17":[]}"#;
    assert_eq!(scrubber().scrub_json(json), expected);
    assert!(matches!(scrubber().scrub_json("{\"a\":\"b\"}"), Cow::Borrowed(_)));
}

/// One whose texts are as ordinary as they can be on somebody's machine.
fn ordinary_scrubber() -> Scrubber {
    let paths = ["/root", "/data", "/work/cache"].map(|path| Private::path("a path", path));
    let users = ["max", "dim", "row"].map(|user| Private::user("the user's name", user));
    let hosts = ["h200", "gpu1"].map(|host| Private::host("the name of this machine", host));
    Scrubber::new([paths, users].concat().into_iter().chain(hosts).flatten())
}

/// Every kernel, plan, prompt and page of this repository goes through as it is.
#[test]
fn ordinary_text_goes_through_byte_for_byte() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["tasks", "prompts", "docs", "crates/judge/tests", "crates/device/src"];
    let mut folders: Vec<_> = folders.iter().map(|folder| root.join(folder)).collect();
    // Kernels that are kept elsewhere, where somebody names their folder.
    folders.extend(option_env!("WARPWRIGHT_MORE_TEXTS").map(Into::into));
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                for scrubber in [scrubber(), ordinary_scrubber()] {
                    assert_eq!(scrubber.find(&text), None, "{}", path.display());
                    assert_eq!(scrubber.scrub(&text), text, "{}", path.display());
                }
                read += 1;
            }
        }
    }
    assert!(read > 200, "only {read} files");
    for code in ["x/root", "in[i]/data[j]", "in[i]/data/2", "x/max //max over rows", "a(x)/root/y"]
    {
        assert_eq!(ordinary_scrubber().scrub(code), code);
    }
    let told = "open /root/x and /data/y, not /data, of /users/max";
    let hidden = "open ***/x and ***/y, not /data, of /users/***";
    assert_eq!(ordinary_scrubber().scrub(told), hidden);
}

/// Pieces that secrets, their surroundings and their look-alikes are made of.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "/home/ada",
        "ada",
        "node-17",
        API_KEY,
        "hunter_two",
        "sk-",
        "0123456789abcdefghij",
        "AKIA",
        "ABCDEFGHIJKLMNOP",
        "Bearer ",
        "authorization: ",
        "api_key=",
        "://",
        "@",
        "/",
        " ",
        "\n",
        "-",
        "_",
        "x",
        "é",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END RSA PRIVATE KEY-----",
        "***",
        "\"",
        "```",
        "\u{202e}",
    ]);
    prop::collection::vec(prop_oneof![piece.prop_map(str::to_owned), ".{0,3}"], 0..24)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn once_is_enough_and_nothing_is_left(text in pieces()) {
        let scrubbed = scrubber().scrub(&text).into_owned();
        prop_assert_eq!(scrubber().scrub(&scrubbed), scrubbed.as_str());
        prop_assert_eq!(scrubber().find(&scrubbed), None);
        prop_assert!(!scrubbed.contains(API_KEY));
        prop_assert_eq!(scrubbed == text, scrubber().find(&text).is_none());
    }

    #[test]
    fn a_key_is_hidden_wherever_it_stands(before in ".{0,40}", after in ".{0,40}") {
        let scrubbed = scrubber().scrub(&format!("{before}{API_KEY}{after}")).into_owned();
        prop_assert!(!scrubbed.contains(API_KEY) && scrubbed.contains(HIDDEN));
    }

    #[test]
    fn json_stays_json(text in pieces(), other in ".{0,60}") {
        let json = serde_json::json!({ "a": [text.clone(), 1.5], "b": { "c": other } });
        let scrubbed = scrubber().scrub_json(&json.to_string()).into_owned();
        let back: serde_json::Value = serde_json::from_str(&scrubbed).unwrap();
        prop_assert_eq!(back["a"][0].as_str().unwrap(), scrubber().scrub(&text));
        prop_assert_eq!(&back["a"][1], &json["a"][1]);
    }

    #[test]
    fn no_reply_is_too_strange(text in pieces()) {
        let scrubbed = scrubber().scrub_reply(&text).into_owned();
        let (before, after) = (crate::reply::fences(&text), crate::reply::fences(&scrubbed));
        // What is compiled stays, or nothing that is private does.
        prop_assert!(before == after || scrubber().find(&scrubbed).is_none());
        prop_assert!(before.is_ok() || scrubber().find(&scrubbed).is_none());
    }
}

/// Four times the text takes no more than about four times as long, whatever it is made of: time
/// that grows with the square would be sixteen times.
#[test]
fn long_texts_are_not_slow() {
    for piece in [
        API_KEY,
        "/home/ad",
        "/home/ada",
        "://a:b",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "Bearer ",
        "api_key=",
        "authorization: ",
        "password=",
        "sk-",
        "aaaa",
        "\"",
        "\\",
    ] {
        let took = |bytes: usize| {
            let text = piece.repeat(bytes / piece.len());
            let started = std::time::Instant::now();
            let _ = (scrubber().find(&text), scrubber().scrub_json(&text).len());
            started.elapsed().as_secs_f64()
        };
        let (short, long) = (took(1 << 17), took(1 << 19));
        assert!(long < 10.0 * short.max(0.02), "{piece}: {short} s, then {long} s");
    }
}
