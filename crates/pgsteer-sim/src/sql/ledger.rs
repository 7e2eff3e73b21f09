//! The one table there is: ids and notes, the same on every server, so that a test can ask afterwards what was
//! really committed. A transaction keeps its changes to itself until it commits; conflicts are found at that moment.

use std::collections::BTreeMap;

use super::SqlError;

/// A committed ledger row set.
pub(crate) type Rows = BTreeMap<i64, Option<String>>;

/// One transaction's changes, not seen by others until it commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    by_id: BTreeMap<i64, Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Insert(Option<String>),
    Update(Option<String>),
    Delete,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// What this transaction sees.
    pub(crate) fn view(&self, committed: &Rows) -> Rows {
        let mut view = committed.clone();
        for (id, change) in &self.by_id {
            match change {
                Change::Insert(note) | Change::Update(note) => {
                    view.insert(*id, note.clone());
                }
                Change::Delete => {
                    view.remove(id);
                }
            }
        }
        view
    }

    pub(crate) fn insert(&mut self, id: i64, note: Option<String>, committed: &Rows) -> Result<(), SqlError> {
        let taken = match self.by_id.get(&id) {
            Some(Change::Delete) => {
                self.by_id.insert(id, Change::Update(note));
                return Ok(());
            }
            Some(_) => true,
            None => committed.contains_key(&id),
        };
        if taken {
            return Err(SqlError::new(
                "23505",
                "duplicate key value violates unique constraint \"ledger_pkey\"",
            ));
        }
        self.by_id.insert(id, Change::Insert(note));
        Ok(())
    }

    pub(crate) fn update(&mut self, id: i64, note: Option<String>) {
        let change = match self.by_id.get(&id) {
            Some(Change::Insert(_)) => Change::Insert(note),
            _ => Change::Update(note),
        };
        self.by_id.insert(id, change);
    }

    pub(crate) fn delete(&mut self, id: i64) {
        if let Some(Change::Insert(_)) = self.by_id.get(&id) {
            self.by_id.remove(&id);
        } else {
            self.by_id.insert(id, Change::Delete);
        }
    }

    /// Applies the changes, or none of them: what another transaction did to the same rows meanwhile is a conflict.
    /// Returns the ids changed.
    pub(crate) fn commit(self, committed: &mut Rows) -> Result<Vec<i64>, SqlError> {
        let conflict = self.by_id.iter().any(|(id, change)| match change {
            Change::Insert(_) => committed.contains_key(id),
            Change::Update(_) | Change::Delete => !committed.contains_key(id),
        });
        if conflict {
            return Err(SqlError::new(
                "40001",
                "could not serialize access due to concurrent update",
            ));
        }
        let ids = self.by_id.keys().copied().collect();
        for (id, change) in self.by_id {
            match change {
                Change::Insert(note) | Change::Update(note) => {
                    committed.insert(id, note);
                }
                Change::Delete => {
                    committed.remove(&id);
                }
            }
        }
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_transactions_that_insert_one_id_conflict_at_the_second_commit() {
        let mut committed = Rows::new();
        let (mut first, mut second) = (Changes::default(), Changes::default());
        first.insert(1, None, &committed).unwrap();
        second.insert(1, Some("other".into()), &committed).unwrap();
        assert_eq!(first.commit(&mut committed), Ok(vec![1]));
        assert_eq!(second.commit(&mut committed).unwrap_err().sqlstate, "40001");
        assert_eq!(committed, Rows::from([(1, None)]));
    }

    #[test]
    fn a_transaction_sees_its_own_changes_and_others_do_not() {
        let committed = Rows::from([(1, None), (2, None)]);
        let mut changes = Changes::default();
        changes.delete(1);
        changes.update(2, Some("new".into()));
        changes.insert(3, None, &committed).unwrap();
        assert_eq!(
            changes.view(&committed),
            Rows::from([(2, Some("new".into())), (3, None)])
        );
        assert_eq!(Changes::default().view(&committed), committed);
    }
}
