//! The list against the parser, the commented file and the page.

use std::collections::BTreeSet;

use super::{commented_file, markdown, sections};
use crate::settings::file::FileSettings;
use crate::settings::model::ModelSetting;

/// The fields that a section of the file takes, as its parser lists them.
fn fields_of(header: &str, kind: Option<&str>) -> BTreeSet<String> {
    let header = if header.is_empty() { String::new() } else { format!("[{header}]\n") };
    let kind = kind.map_or(String::new(), |kind| format!("kind = {kind}\n"));
    let why = FileSettings::parse(&format!("{header}{kind}nonsense = 1\n")).unwrap_err();
    let (_, listed) = why.split_once("expected").unwrap_or_else(|| panic!("{why}"));
    let names = listed.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

#[test]
fn the_list_has_every_field_that_the_parser_takes() {
    let headers: BTreeSet<_> = sections().map(|section| section.header).collect();
    for header in headers {
        let of_header = sections().filter(|section| section.header == header);
        let settings: Vec<_> = of_header.flat_map(|section| section.settings).collect();
        let mut listed: BTreeSet<_> = settings.iter().map(|it| it.key.to_owned()).collect();
        let kind = settings.iter().find(|setting| setting.key == "kind");
        let mut taken = fields_of(header, kind.map(|kind| kind.example));
        listed.remove("kind");
        // Sections of the file's start are headers of their own; a key is only refused.
        for other in ["model", "budget", "search", "judge", "store"] {
            if header.is_empty() {
                taken.remove(other);
            }
        }
        taken.remove("key");
        assert_eq!(listed, taken, "[{header}]");
    }
}

#[test]
fn the_commented_file_works_as_it_is_and_with_everything_switched_on() {
    let text = commented_file();
    let plain = FileSettings::parse(&text).unwrap();
    assert_eq!(plain.model.len(), 1, "{text}");
    let setting = |line: &&str| {
        let rest = line.trim_start_matches("# ");
        let key = rest.split(" = ").next().unwrap_or_default();
        rest.starts_with('[') || (rest.contains(" = ") && !key.contains(' '))
    };
    // A key comes from one place only.
    let lines = text.lines().filter(setting).filter(|line| !line.contains("key_file"));
    let switched_on: Vec<_> = lines.map(|line| line.trim_start_matches("# ")).collect();
    let whole = FileSettings::parse(&switched_on.join("\n")).unwrap();
    assert_eq!(whole.model.keys().collect::<Vec<_>>(), ["agent", "gpt", "me", "recorded"]);
    for name in whole.model.keys() {
        ModelSetting::resolve(name, &whole).unwrap();
    }
}

#[test]
fn the_page_of_settings_is_made_from_the_list() {
    let page = include_str!("../../../../../docs/settings.md");
    assert!(page == markdown(), "docs/settings.md differs from `init --reference`: write it");
}
