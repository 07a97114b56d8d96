use sqlx::PgConnection;

use crate::backend::ended::Ended;
use crate::backend::fence::Asked;
use crate::backend::{BackendError, CancelOutcome, StartOutcome};
use crate::model::{NewRun, NewSignal, RunId, SignalOutcome};

use super::PostgresBackend;
use super::call::Limit;
use super::error::Failure;
use super::family;
use super::{fence, hints, settle, signal, start};

const OPERATION: &str = "start a run in the application's transaction";
const CANCEL: &str = "cancel a run in the application's transaction";

impl PostgresBackend {
    /// Starts a run in the application's own transaction: it exists if and only if that transaction commits, and other
    /// processes hear of it then. After an error the application must roll back.
    ///
    /// # Errors
    /// The database's; kind [`BackendErrorKind::Invalid`](crate::backend::BackendErrorKind::Invalid) if the connection
    /// leads to a database without this schema.
    pub(crate) async fn start_within(
        &self,
        connection: &mut PgConnection,
        run: &NewRun,
    ) -> Result<StartOutcome, BackendError> {
        let outcome = Limit::from_now().run(async {
            let mut outcomes = start::start(connection, &self.sql, &self.clock, &[run]).await?;
            let outcome = outcomes.pop().ok_or_else(|| Failure::corrupt("a start has no outcome"))?;
            hints::notify_within(connection, &self.sql, &self.channel).await?;
            Ok(outcome)
        });
        outcome.await.map_err(|failure| name_other_database(failure).during(OPERATION))
    }

    /// Cancels a run in the application's own transaction. Otherwise as [`PostgresBackend::start_within`].
    ///
    /// # Errors
    /// As [`PostgresBackend::start_within`].
    pub(crate) async fn cancel_within(
        &self,
        connection: &mut PgConnection,
        run: RunId,
    ) -> Result<CancelOutcome, BackendError> {
        let outcome = Limit::from_now().run(async {
            fence::lock(connection, &self.sql, &Asked::from([(run, None)])).await?;
            let mut outcomes =
                settle::cancel(connection, &self.sql, &self.sql.cancel_runs, &self.clock, &[run]).await?;
            let outcome = outcomes.pop().ok_or_else(|| Failure::corrupt("a cancel has no outcome"))?;
            family::tell(connection, &self.sql, &self.clock, Ended::by_cancel(run, outcome)).await?;
            hints::notify_within(connection, &self.sql, &self.channel).await?;
            Ok(outcome)
        });
        outcome.await.map_err(|failure| name_other_database(failure).during(CANCEL))
    }
}

const SIGNAL: &str = "send a signal in the application's transaction";

impl PostgresBackend {
    /// Sends a signal in the application's own transaction: it is sent if and only if that transaction commits, and other
    /// processes hear of it then. Holds the run's row until then. After an error the application must roll back.
    ///
    /// # Errors
    /// As [`PostgresBackend::start_within`].
    pub(crate) async fn signal_within(
        &self,
        connection: &mut PgConnection,
        new: &NewSignal,
    ) -> Result<SignalOutcome, BackendError> {
        let outcome = Limit::from_now().run(async {
            let fence = fence::lock(connection, &self.sql, &Asked::from([(new.run_id, None)])).await?;
            let mut outcomes = signal::send(connection, &self.sql, &self.clock, &fence, &[new]).await?;
            let outcome = outcomes.pop().ok_or_else(|| Failure::corrupt("a signal has no outcome"))?;
            hints::notify_within(connection, &self.sql, &self.channel).await?;
            Ok(outcome)
        });
        outcome.await.map_err(|failure| name_other_database(failure).during(SIGNAL))
    }
}

fn name_other_database(failure: Failure) -> Failure {
    if !failure.is_missing_table() {
        return failure;
    }
    Failure::invalid(
        "the transaction belongs to another database: it does not see this client's schema; begin it on the database \
         that the client is connected to",
    )
}
