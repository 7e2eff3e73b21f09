//! Finds the `Covers:` lines in Rust sources, and the names of the tests they stand above, as `cargo test` prints
//! them after the crate's name. Works on tokens, so that tests inside macros such as `proptest!` are found too; it
//! does not follow `#[path]` attributes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// By case number, the tests that cover it, in order of their names.
pub(crate) type Covers = BTreeMap<String, Vec<String>>;

/// Reads every source of every crate in this folder.
pub(crate) fn collect(crates: &Path) -> Result<Covers, String> {
    let mut covers = Covers::new();
    for package in folder_entries(crates)? {
        let mut files = Vec::new();
        rust_files(&package, &mut files)?;
        for file in files {
            let Some(module) = module_of(&package, &file) else {
                continue;
            };
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            read_source(&text, &module, &mut covers)
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    for tests in covers.values_mut() {
        tests.sort();
        tests.dedup();
    }
    Ok(covers)
}

fn folder_entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    for path in folder_entries(folder)? {
        if path.is_dir() {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// The crate and module that a file is, such as `pgsteer_core::hosts::picker`. `None` for files outside a crate.
fn module_of(package: &Path, file: &Path) -> Option<String> {
    let inside = file.strip_prefix(package).ok()?.with_extension("");
    let mut parts: Vec<&str> = inside.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
    let kind = parts.remove(0);
    if parts
        .last()
        .is_some_and(|last| *last == "mod" || (parts.len() > 1 && *last == "main"))
    {
        parts.pop();
    }
    match kind {
        "src" => {
            if parts.last().is_some_and(|last| matches!(*last, "lib" | "main")) {
                parts.pop();
            }
            let name = package.file_name()?.to_str()?.replace('-', "_");
            Some(
                std::iter::once(name.as_str())
                    .chain(parts)
                    .collect::<Vec<_>>()
                    .join("::"),
            )
        }
        "tests" | "examples" => Some(parts.join("::")),
        _ => None,
    }
}

fn read_source(text: &str, module: &str, covers: &mut Covers) -> Result<(), String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("no Rust source: {error}"))?;
    read_tokens(tokens, module, covers)
}

/// Walks one level of tokens. What is known of the item that is being read is forgotten when it ends.
fn read_tokens(tokens: TokenStream, module: &str, covers: &mut Covers) -> Result<(), String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut cases: Vec<String> = Vec::new();
    let mut is_test = false;
    let mut name_of_module: Option<String> = None;
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        match (token, tokens.get(place + 1)) {
            (TokenTree::Punct(punct), Some(TokenTree::Group(group)))
                if punct.as_char() == '#' && group.delimiter() == Delimiter::Bracket =>
            {
                cases.extend(covered_cases(group.stream()));
                is_test |= is_test_attribute(group.stream());
                place += 1;
            }
            (TokenTree::Ident(word), Some(TokenTree::Ident(name))) if word == "fn" => {
                let test = format!("{module}::{name}");
                if !cases.is_empty() && !is_test {
                    return Err(format!("{test} covers cases but is no test"));
                }
                for case in cases.drain(..) {
                    covers.entry(case).or_default().push(test.clone());
                }
                is_test = false;
                place += 1;
            }
            (TokenTree::Ident(word), Some(TokenTree::Ident(name))) if word == "mod" => {
                name_of_module = Some(name.to_string());
                place += 1;
            }
            (TokenTree::Group(group), _) if group.delimiter() == Delimiter::Brace => {
                let inner = match name_of_module.take() {
                    Some(name) => format!("{module}::{name}"),
                    None => module.to_owned(),
                };
                read_tokens(group.stream(), &inner, covers)?;
            }
            (TokenTree::Punct(punct), _) if punct.as_char() == ';' => name_of_module = None,
            _ => {}
        }
        place += 1;
    }
    Ok(())
}

/// The case numbers of a documentation line that says `Covers:`.
fn covered_cases(attribute: TokenStream) -> Vec<String> {
    let mut tokens = attribute.into_iter();
    let is_doc = matches!(tokens.next(), Some(TokenTree::Ident(word)) if word == "doc");
    let Some(TokenTree::Literal(text)) = tokens.nth(1).filter(|_| is_doc) else {
        return Vec::new();
    };
    let text = text.to_string();
    let Some((_, cases)) = text.split_once("Covers:") else {
        return Vec::new();
    };
    let words = cases.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    words.filter(|word| is_case(word)).map(str::to_owned).collect()
}

/// A capital letter, a hyphen, and a number: `E-001`. Whether the table has it is asked later.
pub(crate) fn is_case(word: &str) -> bool {
    matches!(word.split_once('-'), Some((letter, number))
        if letter.len() == 1
            && letter.chars().all(|letter| letter.is_ascii_uppercase())
            && !number.is_empty()
            && number.chars().all(|digit| digit.is_ascii_digit()))
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(…)]`.
fn is_test_attribute(attribute: TokenStream) -> bool {
    let words = attribute.into_iter().filter_map(|token| match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    });
    words.last().is_some_and(|word| word == "test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(text: &str) -> Covers {
        let mut covers = Covers::new();
        read_source(text, "it", &mut covers).unwrap();
        covers
    }

    #[test]
    fn a_files_place_gives_its_module() {
        let package = Path::new("crates/a-b");
        let of = |file: &str| module_of(package, &package.join(file));
        for (file, module) in [
            ("src/lib.rs", Some("a_b")),
            ("src/main.rs", Some("a_b")),
            ("src/pool/mod.rs", Some("a_b::pool")),
            ("src/pool/slots.rs", Some("a_b::pool::slots")),
            ("tests/it.rs", Some("it")),
            ("tests/it/main.rs", Some("it")),
            ("tests/it/pool.rs", Some("it::pool")),
            ("build.rs", None),
        ] {
            assert_eq!(
                of(file).as_deref().filter(|module| !module.is_empty()),
                module,
                "{file}"
            );
        }
    }

    #[test]
    fn cases_belong_to_the_test_below_them_in_its_module() {
        let found = covers(
            "mod tests {
                 /// Words.
                 ///
                 /// Covers: E-001, E-002
                 #[test]
                 fn plain() { let text = \"}\"; }
                 proptest! {
                     #[test]
                     /// Covers: E-003
                     fn random(x in 0..9) {}
                 }
             }
             /// Covers: F-07, E-003
             #[tokio::test(flavor = \"multi_thread\")]
             async fn waits() {}",
        );
        let expected = [
            ("E-001", vec!["it::tests::plain"]),
            ("E-002", vec!["it::tests::plain"]),
            ("E-003", vec!["it::tests::random", "it::waits"]),
            ("F-07", vec!["it::waits"]),
        ];
        let expected: Covers = expected
            .into_iter()
            .map(|(case, tests)| (case.to_owned(), tests.into_iter().map(str::to_owned).collect()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_helper_cannot_cover_a_case() {
        let mut covers = Covers::new();
        let error = read_source("/// Covers: E-001\nfn helper() {}", "it", &mut covers).unwrap_err();
        assert!(error.contains("it::helper"), "{error}");
    }
}
