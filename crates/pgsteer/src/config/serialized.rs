//! Configurations in documents (feature `serde`): read with the same names, texts and rules as connection strings, and
//! written normalised and without secrets.
//!
//! A document is read whole before any value is looked at, so that all unknown names are reported together.

use std::fmt;
use std::net::IpAddr;

use pgsteer_core::host::HostKey;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::error::REDACTED;
use super::options::{self, Dialect, Given, Known, OptionRule};
use super::{Config, ConfigError, Description, HostSpec, Value, conninfo};

/// The field that holds a connection string, which all other fields override.
const URL: &str = "url";

/// What is wrong with what [`Serialize`] left out of a document.
const LEFT_OUT: &str = "the value itself: this word stands for one that was left out when the configuration was \
                        written; put the value here, or leave the field out and set it afterwards";

/// Reads a map of options by their names, with underscores or dashes, and judges the outcome.
///
/// Values are written as in a connection string, numbers and flags also as such: `"30s"`, `10`, `true`. `hosts` is one
/// host or a list, each a text, a pair `["db1", 5433]` or a map `{"host": "db1", "port": 5433}`, to which `"hostaddr"` may
/// add the address to dial. `url` holds a
/// connection string that the other fields override; write `yugabytedb://` there for YugabyteDB's defaults. A field that
/// is null counts as left out. Unknown fields are errors, and so is `redacted` for what is left out
/// when a configuration is written.
impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not `deserialize_map`, by which a format would complain about a text itself, and repeat it.
        deserializer.deserialize_any(Document)
    }
}

/// Writes the description: normalised, complete, the password as `redacted`. Fails if the configuration is not valid.
impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.describe()
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl Serialize for Description {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Unset => serializer.serialize_none(),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Number(number) => serializer.serialize_u64(*number),
            Value::Flag(on) => serializer.serialize_bool(*on),
            Value::Hosts(hosts) => serializer.collect_seq(hosts.iter().map(Host)),
        }
    }
}

struct Host<'a>(&'a HostKey);

impl Serialize for Host<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Host(key) = self;
        let mut map = serializer.serialize_map(Some(if key.address().is_some() { 3 } else { 2 }))?;
        map.serialize_entry("host", key.name())?;
        map.serialize_entry("port", &key.port())?;
        if let Some(address) = key.address() {
            map.serialize_entry("hostaddr", &address.to_string())?;
        }
        map.end()
    }
}

struct Document;

impl<'de> Visitor<'de> for Document {
    type Value = Config;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of pgsteer options")
    }

    /// Most likely a connection string, which is not repeated as it may hold a password.
    fn visit_str<E: Error>(self, _: &str) -> Result<Config, E> {
        Err(E::custom(
            "invalid type: text, expected a map of pgsteer options; a connection string goes into its field `url`",
        ))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Config, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry::<String, Node>()? {
            fields.push(field);
        }
        configure(fields).map_err(A::Error::custom)
    }
}

fn configure(fields: Vec<(String, Node)>) -> Result<Config, ConfigError> {
    let (urls, fields): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(name, _)| name == URL);
    let known = options::resolve(fields.iter().map(|(name, _)| name.as_str()))?;
    let mut config = match urls.as_slice() {
        [] | [(_, Node::Null)] => Config::new(),
        [(_, Node::Text(url))] => conninfo::read(url)?,
        [_] => {
            return Err(ConfigError::InvalidUrl {
                reason: "it is not a text".to_owned(),
            });
        }
        _ => return Err(ConfigError::DuplicateOption { name: URL }),
    };
    let mut hosts = None;
    let mut given = Vec::new();
    for (known, (name, node)) in known.into_iter().zip(fields) {
        match (known.own(), node) {
            (_, Node::Null) => {}
            (Some(rule), node) if rule.name == "hosts" => {
                if hosts.replace(node.hosts(rule)?).is_some() {
                    return Err(ConfigError::DuplicateOption { name: rule.name });
                }
            }
            (_, node) => given.push(Given {
                written: name,
                value: node.into_bytes(known)?,
                known,
            }),
        }
    }
    let settled = options::settle(given, Dialect::Plain)?;
    if settled.options.iter().any(|(rule, _)| rule.name == "port") {
        // The port overrides those in the URL; a list of hosts in this document brings its own.
        for host in config.hosts.iter_mut().flatten() {
            host.port = None;
        }
    }
    if let Some(hosts) = hosts {
        config.hosts = Some(hosts);
    }
    for (rule, value) in settled.options {
        if rule.is_left_out() && value == REDACTED.as_bytes() {
            return Err(ConfigError::InvalidOption {
                name: rule.name,
                value: REDACTED.to_owned(),
                allowed: LEFT_OUT,
            });
        }
        rule.apply(&mut config, &value)?;
    }
    config.without_use.extend(settled.without_use);
    config.judge()?;
    Ok(config)
}

/// Any value of any document.
enum Node {
    Null,
    Flag(bool),
    /// A number of any kind, as written in decimal.
    Number(String),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The value as a connection string would give it.
    fn into_bytes(self, known: Known) -> Result<Vec<u8>, ConfigError> {
        match (self, known.own()) {
            (Node::Text(text), _) => Ok(text.into_bytes()),
            (Node::Bytes(bytes), _) => Ok(bytes),
            (node @ (Node::Flag(_) | Node::Number(_)), Some(rule)) if rule.is_text() => {
                Err(rule.invalid(node.shown().as_bytes()))
            }
            (node @ (Node::Flag(_) | Node::Number(_)), _) => Ok(node.shown().into_bytes()),
            (node, _) => Err(known.not_text(&node.shown())),
        }
    }

    fn hosts(self, rule: &OptionRule) -> Result<Vec<HostSpec>, ConfigError> {
        match self {
            Node::Text(text) => Ok(text.split(',').map(HostSpec::new).collect()),
            Node::List(hosts) => hosts.into_iter().map(|host| host.host(rule)).collect(),
            single => Ok(vec![single.host(rule)?]),
        }
    }

    fn host(self, rule: &OptionRule) -> Result<HostSpec, ConfigError> {
        let invalid = || rule.invalid(self.shown().as_bytes());
        match &self {
            Node::Text(name) => Ok(HostSpec::new(name)),
            Node::List(pair) => match pair.as_slice() {
                [Node::Text(name), Node::Number(port)] => {
                    Ok(HostSpec::new(name).port(port.parse().map_err(|_| invalid())?))
                }
                [Node::Text(name), Node::Null] => Ok(HostSpec::new(name)),
                _ => Err(invalid()),
            },
            Node::Map(fields) => host_from(fields).ok_or_else(invalid),
            _ => Err(invalid()),
        }
    }

    /// The value in words, for errors. What is in lists, maps and bytes may be anything, so it is not repeated.
    fn shown(&self) -> String {
        match self {
            Node::Null => "null".to_owned(),
            Node::Flag(on) => on.to_string(),
            Node::Number(text) | Node::Text(text) => text.clone(),
            Node::Bytes(_) => "bytes".to_owned(),
            Node::List(_) => "a list".to_owned(),
            Node::Map(_) => "a map".to_owned(),
        }
    }
}

/// `{"host": "db1", "port": 5433, "hostaddr": "10.0.0.1"}`, the last two possibly null or left out, each at most once.
fn host_from(fields: &[(String, Node)]) -> Option<HostSpec> {
    let mut name = None;
    let mut port = None;
    let mut address = None;
    for (field, value) in fields {
        let repeated = match (field.as_str(), value) {
            ("host", Node::Text(text)) => name.replace(text).is_some(),
            ("port", Node::Null) => port.replace(None).is_some(),
            ("port", Node::Number(number)) => port.replace(Some(number.parse::<u16>().ok()?)).is_some(),
            ("hostaddr", Node::Null) => address.replace(None).is_some(),
            ("hostaddr", Node::Text(text)) => address.replace(Some(text.parse::<IpAddr>().ok()?)).is_some(),
            _ => return None,
        };
        if repeated {
            return None;
        }
    }
    Some(HostSpec {
        name: name?.clone(),
        port: port.flatten(),
        address: address.flatten(),
    })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value of an option")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<Node, E> {
        Ok(Node::Flag(on))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Number(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Number(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Node, E> {
        // With a point even for whole numbers, which an option that counts must not take.
        Ok(Node::Number(format!("{number:?}")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Node, E> {
        Ok(Node::Text(text))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Node, E> {
        Ok(Node::Bytes(bytes.to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }
}
