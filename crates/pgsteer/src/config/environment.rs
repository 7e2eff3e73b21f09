//! libpq's environment variables, read only on request and below everything that is given explicitly.

use std::ffi::OsString;

use super::conninfo::{HostLists, read_ports};
use super::{Config, ConfigError, hosts, options};

/// Each variable with the parameter it stands for. Of those that cannot be had the table of words says why.
const VARIABLES: [(&str, &str); 35] = [
    ("PGHOST", "hosts"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGDATABASE", "database"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGOPTIONS", "options"),
    ("PGAPPNAME", "application_name"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGLOADBALANCEHOSTS", "load_balance_hosts"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGCLIENTENCODING", "client_encoding"),
    ("PGGSSENCMODE", "gssencmode"),
    ("PGGSSDELEGATION", "gssdelegation"),
    ("PGGSSLIB", "gsslib"),
    ("PGKRBSRVNAME", "krbsrvname"),
    ("PGMAXPROTOCOLVERSION", "max_protocol_version"),
    ("PGMINPROTOCOLVERSION", "min_protocol_version"),
    ("PGREQUIREAUTH", "require_auth"),
    ("PGREQUIREPEER", "requirepeer"),
    ("PGREQUIRESSL", "requiressl"),
    ("PGSERVICE", "service"),
    ("PGSSLCERTMODE", "sslcertmode"),
    ("PGSSLCOMPRESSION", "sslcompression"),
    ("PGSSLCRL", "sslcrl"),
    ("PGSSLCRLDIR", "sslcrldir"),
    ("PGSSLMAXPROTOCOLVERSION", "ssl_max_protocol_version"),
    ("PGSSLMINPROTOCOLVERSION", "ssl_min_protocol_version"),
    ("PGSSLSNI", "sslsni"),
];
/// Settings of the session that libpq has variables for.
const SETTINGS: [&str; 3] = ["PGTZ", "PGDATESTYLE", "PGGEQO"];

impl Config {
    /// Takes what is not given from libpq's environment variables: `PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`,
    /// `PGSSLMODE` and so on, and the password from the file that `PGPASSFILE` names.
    ///
    /// What is given by a setter or a connection string wins. `PGHOST` and `PGHOSTADDR` count only if no host is given, and
    /// `PGPORT` only if no port is. An empty variable is as good as none. Values are judged with the whole configuration,
    /// as others are.
    ///
    /// # Errors
    ///
    /// The first variable whose value is none, or that asks for something this version does not have, and what
    /// [`with_pgpass_file`](Config::with_pgpass_file) may fail with.
    pub fn with_environment(self) -> Result<Self, ConfigError> {
        self.with_environment_from(|name| std::env::var_os(name))
    }

    /// The same as [`with_environment`](Config::with_environment), with something else in the place of the process's
    /// environment: it is asked for the value of each variable.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn with_environment_from(
        mut self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ConfigError> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut lists = HostLists::default();
        let hosts_given = self.hosts.is_some();
        let ports_given = self.port.is_some() || self.hosts.iter().flatten().any(|host| host.port.is_some());
        for (name, parameter) in VARIABLES {
            let Some(value) = value(name).filter(|_| !self.has(parameter)) else {
                continue;
            };
            let value = value.into_encoded_bytes();
            let outcome = match parameter {
                "hosts" | "hostaddr" if hosts_given => Ok(()),
                "port" if ports_given => Ok(()),
                "hosts" => listed(parameter, &value, |text| {
                    lists.names = text.split(',').map(str::to_owned).collect();
                    Some(())
                }),
                "hostaddr" => listed(parameter, &value, |text| {
                    lists.addresses = hosts::addresses(text)?;
                    Some(())
                }),
                "port" => listed(parameter, &value, |text| {
                    lists.ports = read_ports(text.as_bytes())?;
                    Some(())
                }),
                parameter => options::set(&mut self, parameter, &value),
            };
            outcome.map_err(|error| in_variable(name, error))?;
        }
        for name in SETTINGS {
            if value(name).is_some() {
                let error = ConfigError::NotInThisVersion {
                    name: name.to_owned(),
                    reason: "not read in this version; write the setting into PGOPTIONS, such as -c TimeZone=UTC",
                };
                return Err(in_variable(name, error));
            }
        }
        if let (true, Some(hosts)) = (!lists.ports.is_empty(), &self.hosts) {
            // One of the ports for each of the hosts that are given.
            lists.names = hosts.iter().map(|host| host.name.clone()).collect();
            lists.addresses = hosts.iter().map(|host| host.address).collect();
        }
        lists.store(&mut self)?;
        match value("PGPASSFILE") {
            Some(path) => self.with_pgpass_file(path),
            None => Ok(self),
        }
    }

    /// Whether the option of this name is given. Hosts and ports are looked at elsewhere, being lists.
    fn has(&self, name: &str) -> bool {
        match name {
            "database" => self.database.is_some(),
            "user" => self.user.is_some(),
            "password" => self.password.is_given(),
            "options" => self.options.is_some(),
            "application_name" => self.application_name.is_some(),
            "target_session_attrs" => self.target_session_attrs.is_some(),
            "load_balance_hosts" => self.load_balance_hosts.is_some(),
            "connect_timeout" => self.connect_timeout.is_some(),
            "sslmode" => self.tls.mode.is_some(),
            "sslnegotiation" => self.tls.negotiation.is_some(),
            "channel_binding" => self.tls.channel_binding.is_some(),
            "sslrootcert" => self.tls.roots.is_some(),
            "sslcert" => self.tls.client_cert.is_some(),
            "sslkey" => self.tls.client_key.is_some(),
            _ => false,
        }
    }
}

fn listed(
    option: &'static str,
    value: &[u8],
    read: impl FnOnce(&str) -> Option<()>,
) -> Result<(), ConfigError> {
    let read = std::str::from_utf8(value).ok().and_then(read);
    read.ok_or_else(|| options::invalid(option, value))
}

fn in_variable(variable: &'static str, error: ConfigError) -> ConfigError {
    ConfigError::InEnvironment {
        variable,
        error: Box::new(error),
    }
}
