//! What must hold of connection strings, whatever the text. Used by the fuzz target and by an ordinary test.

use pgsteer::config::{Config, Description};

/// The password of every run. Whatever the text says, it is set afterwards, so that it must not be found anywhere.
const SECRET: &str = "s3cret-Tr0ub4dor-and-no-other";

/// The description without the password's line.
fn described(description: &Description) -> Vec<String> {
    let others = description.iter().filter(|(name, _)| *name != "password");
    others.map(|(name, value)| format!("{name}={value}")).collect()
}

pub(crate) fn check(text: &str) {
    if text.contains(SECRET) {
        return;
    }
    let config: Config = match text.parse() {
        Ok(config) => config,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let Ok(description) = config.describe() else {
        // The system does not tell its user's name.
        return;
    };
    let printed = config.to_url().expect("what is described is printed");
    let again: Config = printed
        .parse()
        .unwrap_or_else(|error| panic!("{printed} is refused: {error}"));
    let back = again.describe().expect("what was printed is valid");
    assert_eq!(described(&back), described(&description), "{printed}");
    assert_eq!(again.to_url().expect("valid"), printed);

    let secret = config.password(SECRET);
    let document = serde_json::to_string(&secret).expect("valid");
    let shown = format!(
        "{secret:?} {:?} {:?} {document}",
        secret.describe(),
        secret.to_url()
    );
    assert!(!shown.contains(SECRET), "{shown}");
}
