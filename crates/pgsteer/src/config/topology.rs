//! `topology_keys` as they are configured: text still to be read, or keys already made.

use pgsteer_core::topology::TopologyKeys;

use super::ConfigError;

/// What [`Config::topology_keys`](super::Config::topology_keys) takes: text such as
/// `gcp.us-east1.us-east1-b:1,gcp.us-east1.*:2`, read when the configuration is checked, or [`TopologyKeys`].
#[derive(Clone, Debug)]
pub struct TopologySpec(Form);

#[derive(Clone, Debug)]
enum Form {
    Text(String),
    Keys(TopologyKeys),
}

impl TopologySpec {
    /// The keys, or the part of the text that is none.
    pub(super) fn keys(&self) -> Result<TopologyKeys, ConfigError> {
        match &self.0 {
            Form::Text(text) => Ok(TopologyKeys::parse(text)?),
            Form::Keys(keys) => Ok(keys.clone()),
        }
    }
}

impl Default for TopologySpec {
    /// No keys.
    fn default() -> Self {
        TopologySpec(Form::Text(String::new()))
    }
}

impl From<&str> for TopologySpec {
    fn from(text: &str) -> Self {
        TopologySpec(Form::Text(text.to_owned()))
    }
}

impl From<String> for TopologySpec {
    fn from(text: String) -> Self {
        TopologySpec(Form::Text(text))
    }
}

impl From<TopologyKeys> for TopologySpec {
    fn from(keys: TopologyKeys) -> Self {
        TopologySpec(Form::Keys(keys))
    }
}
