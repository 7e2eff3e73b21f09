//! The list of other drivers' words: libpq's, pgjdbc's and the YugabyteDB drivers' that are no options here.
//!
//! Whatever the word, its value is repeated in an error only if it is one of a few known words to choose from or a number.

use super::words::{Fate, Word};

const NO_GSS: &str = "GSSAPI, Kerberos and SSPI logins are not in this version; leave it out, or log in with a password or \
                      a client certificate";
const NO_CRL: &str = "revocation lists are not read in this version, and a server's certificate that was revoked must not \
                      pass for a good one; leave it out to go without";
const NO_OAUTH: &str =
    "OAuth logins are not in this version; give a token as the password, or with Config::password_source";
const NO_JAVA: &str = "a Java class; there is nothing to run it";
const NO_SERVICE: &str =
    "service files are not read in this version; write their parameters into the connection string";
const ON_REQUEST: &str = "a password file is read only on request: call Config::with_pgpass_file, or give `pgsteer url` its \
                          --pgpass";
const PLAIN_KEY: &str = "encrypted keys are not in this version; give sslkey a file with the key in clear, readable only to \
                         its user";
const fn word(name: &'static str, aliases: &'static [&'static str], fate: Fate) -> Word {
    Word { name, aliases, fate }
}

const fn only(name: &'static str, values: &'static [&'static str], reason: &'static str) -> Word {
    word(name, &[], Fate::Only(values, reason))
}

const fn refused(name: &'static str, reason: &'static str) -> Word {
    word(name, &[], Fate::Refused(reason))
}

const fn tunes(name: &'static str) -> Word {
    word(name, &[], Fate::Tunes)
}

/// Every word.
pub(super) const WORDS: &[Word] = &[
    // what is an option of ours by another name, or with other values
    word("ssl", &[], Fate::Ssl),
    word(
        "targetServerType",
        &[],
        Fate::Means(
            "target_session_attrs",
            target,
            "any, primary, master, secondary, slave, preferPrimary, preferSecondary or preferSlave",
        ),
    ),
    word(
        "tcpKeepAlive",
        &[],
        Fate::Means("keepalives", flag, "true or false"),
    ),
    word(
        "hostRecheckSeconds",
        &[],
        Fate::Means("role_ttl", whole_seconds, "whole seconds"),
    ),
    word(
        "loginTimeout",
        &[],
        Fate::Means(
            "checkout_timeout",
            seconds_or_none,
            "whole seconds, 0 for no limit",
        ),
    ),
    word(
        "currentSchema",
        &[],
        Fate::Means(
            "options",
            search_path,
            "the names of schemas, separated by commas",
        ),
    ),
    word("PGHOST", &[], Fate::Means("hosts", same, "hosts")),
    word("PGPORT", &[], Fate::Means("port", same, "ports")),
    word("PGDBNAME", &[], Fate::Means("database", same, "text")),
    word(
        "failed_host_ttl_seconds",
        &[],
        Fate::Means(
            "failed_host_reconnect_delay_secs",
            same,
            "whole seconds from 0 to 60",
        ),
    ),
    // libpq's
    only(
        "client_encoding",
        &["utf8", "utf-8", "unicode"],
        "connections always speak UTF-8; leave it out, or write UTF8",
    ),
    word(
        "gssencmode",
        &["gssEncMode"],
        Fate::Only(
            &["disable", "prefer", "allow"],
            "encryption by GSSAPI is not in this version; leave it out, or write disable, and use sslmode to have TLS",
        ),
    ),
    refused("krbsrvname", NO_GSS),
    only("gsslib", &["auto"], NO_GSS),
    only("gssdelegation", &["0"], NO_GSS),
    only(
        "sslcompression",
        &["0"],
        "compression inside TLS is unsafe and not to be had; leave it out",
    ),
    only(
        "sslcertmode",
        &["allow"],
        "not in this version; a certificate given in sslcert is shown where the server asks for one, which is allow",
    ),
    word("sslpassword", &[], Fate::Refused(PLAIN_KEY)),
    refused("sslcrl", NO_CRL),
    refused("sslcrldir", NO_CRL),
    only(
        "sslsni",
        &["1"],
        "the name of the server is always sent; leave it out, or set ssl_server_name to send another",
    ),
    refused(
        "sslkeylogfile",
        "session keys are not written anywhere; leave it out",
    ),
    refused(
        "requirepeer",
        "the user behind a Unix socket is not checked in this version; protect the socket's directory instead",
    ),
    word(
        "require_auth",
        &["requireAuth"],
        Fate::Refused(
            "the kind of login cannot be prescribed in this version; channel_binding=require accepts nothing but SCRAM \
             over TLS",
        ),
    ),
    only(
        "ssl_min_protocol_version",
        &["", "TLSv1", "TLSv1.1", "TLSv1.2"],
        "TLS 1.2 and 1.3 are spoken, and 1.2 cannot be switched off here; leave it out, or write TLSv1.2",
    ),
    only(
        "ssl_max_protocol_version",
        &["", "TLSv1.3"],
        "TLS 1.2 and 1.3 are spoken, and 1.3 cannot be switched off here; leave it out, or write TLSv1.3",
    ),
    only(
        "min_protocol_version",
        &["3.0"],
        "version 3.0 of the protocol is spoken; leave it out",
    ),
    only(
        "max_protocol_version",
        &["3.0", "3.2", "latest"],
        "version 3.0 of the protocol is spoken; leave it out",
    ),
    only(
        "replication",
        &["false", "off", "no", "0"],
        "a pool has no use for replication connections; use tokio-postgres by itself for them",
    ),
    refused("service", NO_SERVICE),
    refused("servicefile", NO_SERVICE),
    refused("passfile", ON_REQUEST),
    refused(
        "scram_client_key",
        "logins with keys of SCRAM are not in this version; give the password",
    ),
    refused(
        "scram_server_key",
        "logins with keys of SCRAM are not in this version; give the password",
    ),
    refused("oauth_issuer", NO_OAUTH),
    refused("oauth_client_id", NO_OAUTH),
    refused("oauth_client_secret", NO_OAUTH),
    refused("oauth_scope", NO_OAUTH),
    refused("requiressl", "of libpq's past; write sslmode=require"),
    refused(
        "authtype",
        "of libpq's past, and without effect there; leave it out",
    ),
    refused("tty", "of libpq's past, and without effect there; leave it out"),
    // pgjdbc's that make a difference
    only(
        "prepareThreshold",
        &["1", "2", "3", "4", "5"],
        "tokio-postgres prepares what is given to its query and execute; behind a pooler that cannot have that write \
         statement_cache_size=0, use query_cached, query_typed or simple_query, and leave this out",
    ),
    only(
        "preferQueryMode",
        &["extended", "extendedForPrepared", "extendedCacheEverything"],
        "each call of tokio-postgres has its own way: query and execute prepare, query_typed does not, simple_query sends \
         plain text; leave this out",
    ),
    only(
        "autosave",
        &["never"],
        "no savepoint is ever set behind the application's back; leave it out, or write never",
    ),
    only(
        "readOnly",
        &["false"],
        "write options=-c default_transaction_read_only=on (encoded as its place needs) instead",
    ),
    only(
        "tcpNoDelay",
        &["true"],
        "small packets are always sent at once; leave it out",
    ),
    only(
        "protocolVersion",
        &["", "3", "3.0"],
        "version 3.0 of the protocol is spoken; leave it out",
    ),
    refused(
        "localSocketAddress",
        "the address to dial from cannot be chosen in this version",
    ),
    only(
        "allowEncodingChanges",
        &["false"],
        "connections always speak UTF-8; leave it out",
    ),
    word(
        "sslfactory",
        &[],
        Fate::Refused("a Java class; write sslmode and sslrootcert to say what is checked"),
    ),
    word(
        "sslfactoryarg",
        &[],
        Fate::Refused("a Java class's; write sslmode and sslrootcert to say what is checked"),
    ),
    refused(
        "sslhostnameverifier",
        "a Java class; sslmode=verify-full checks the host dialled, and ssl_server_name sets another name",
    ),
    refused("sslpasswordcallback", PLAIN_KEY),
    refused("socketFactory", NO_JAVA),
    refused("socketFactoryArg", NO_JAVA),
    refused(
        "authenticationPluginClassName",
        "a Java class; Config::password_source takes a function that is asked for the password at each dial",
    ),
    refused("jaasApplicationName", NO_GSS),
    only("jaasLogin", &["true", "false"], NO_GSS),
    refused("kerberosServerName", NO_GSS),
    only("gssUseDefaultCreds", &["false"], NO_GSS),
    only("useSpnego", &["false"], NO_GSS),
    refused("sspiServiceClass", NO_GSS),
    // pgjdbc's that tune what only it has
    tunes("adaptiveFetch"),
    tunes("adaptiveFetchMaximum"),
    tunes("adaptiveFetchMinimum"),
    tunes("assumeMinServerVersion"),
    tunes("binaryTransfer"),
    tunes("binaryTransferDisable"),
    tunes("binaryTransferEnable"),
    tunes("cancelSignalTimeout"),
    tunes("cleanupSavepoints"),
    tunes("databaseMetadataCacheFields"),
    tunes("databaseMetadataCacheFieldsMiB"),
    tunes("defaultRowFetchSize"),
    tunes("disableColumnSanitiser"),
    tunes("escapeSyntaxCallMode"),
    tunes("groupStartupParameters"),
    tunes("gssResponseTimeout"),
    tunes("hideUnprivilegedObjects"),
    tunes("logServerErrorDetail"),
    tunes("logUnclosedConnections"),
    tunes("loggerFile"),
    tunes("loggerLevel"),
    tunes("maxResultBuffer"),
    tunes("maxSendBufferSize"),
    tunes("preparedStatementCacheQueries"),
    tunes("preparedStatementCacheSizeMiB"),
    tunes("quoteReturningIdentifiers"),
    tunes("readOnlyMode"),
    tunes("reWriteBatchedInserts"),
    tunes("receiveBufferSize"),
    tunes("sendBufferSize"),
    tunes("sslResponseTimeout"),
    tunes("stringtype"),
    tunes("unknownLength"),
    tunes("xmlFactoryFactory"),
    // sqlx's
    tunes("statement_cache_capacity"),
];

fn same(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// pgjdbc's `primary` wants writes, and its `secondary` takes whatever refuses them.
fn target(text: &str) -> Option<String> {
    let target = match text {
        "any" => "any",
        "primary" | "master" => "read-write",
        "secondary" | "slave" => "read-only",
        "preferPrimary" => "prefer-primary",
        "preferSecondary" | "preferSlave" => "prefer-read-only",
        _ => return None,
    };
    Some(target.to_owned())
}

fn flag(text: &str) -> Option<String> {
    super::read::flag(text).map(|on| on.to_string())
}

fn whole_seconds(text: &str) -> Option<String> {
    super::read::number::<u64>(text).map(|seconds| format!("{seconds}s"))
}

fn seconds_or_none(text: &str) -> Option<String> {
    match super::read::number::<u64>(text)? {
        0 => Some("none".to_owned()),
        seconds => Some(format!("{seconds}s")),
    }
}

/// As a command-line option of the server's process, in which white space and backslashes are escaped.
fn search_path(schemas: &str) -> Option<String> {
    if schemas.contains('\0') {
        return None;
    }
    let mut option = "-c search_path=".to_owned();
    for character in schemas.chars() {
        if character == '\\' || character.is_ascii_whitespace() || character == '\u{b}' {
            option.push('\\');
        }
        option.push(character);
    }
    Some(option)
}
