//! What the next holder must find.

use pgsteer::tokio_postgres::SimpleQueryMessage;
use pgsteer::tokio_postgres::types::Type;
use pgsteer::{Conn, TransactionStatus};

use crate::site::Site;

/// Fails unless the connection is as good as new: outside a transaction, and it answers what it is asked and nothing else.
pub(crate) async fn is_clean(site: &Site, conn: &Conn, number: i32) {
    let end = Conn::end(conn);
    assert_eq!(
        Conn::transaction_status(conn),
        Some(TransactionStatus::Idle),
        "{end:?}"
    );
    let row = conn
        .query_typed_one("SELECT $1 + 1", &[(&number, Type::INT4)])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i32>(0), number + 1);
    if site.is_real() {
        let sql = "SELECT pg_current_xact_id_if_assigned() IS NULL AND now() = statement_timestamp() \
                   AND NOT EXISTS (SELECT FROM pg_cursors)";
        let answer = conn.simple_query(sql).await.unwrap();
        assert!(
            answer.iter().any(is_true),
            "it is inside a transaction, or has a cursor"
        );
    }
    // Costs a look at every row.
    if number % 64 == 0 {
        let sql = "SELECT count(*) FROM ledger WHERE note = 'no'";
        let row = conn.query_one_cached(sql, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 0, "what was given up is there");
    }
}

fn is_true(message: &SimpleQueryMessage) -> bool {
    matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t"))
}
