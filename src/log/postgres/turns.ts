import type { Connections } from "../../postgres/connections.ts";
import type { TurnHistory } from "../kept/turns.ts";

/** The tables `turns` and `folds`. `settled` waits for the appends before. */
export function createTurnRows(database: Connections, settled: () => Promise<void>): TurnHistory {
  const { query } = database;
  return {
    list: async (ordinal, { before, limit }) => {
      await settled();
      const rows = await query(
        `SELECT last, began, outline FROM sluice.turns WHERE session = $1::bigint AND last < $2::bigint
         ORDER BY last DESC LIMIT $3::bigint`,
        [ordinal, before, limit],
      );
      return rows.map((row) => ({
        from: Number(row["began"]),
        last: Number(row["last"]),
        outline: String(row["outline"]),
      }));
    },
    foldAt: async (ordinal, sequence) => {
      await settled();
      const [row] = await query(
        `SELECT at, state FROM sluice.folds WHERE session = $1::bigint AND at <= $2::bigint
         ORDER BY at DESC LIMIT 1`,
        [ordinal, sequence],
      );
      return row && { at: Number(row["at"]), state: String(row["state"]) };
    },
    add: (ordinal, { turns, folds }) =>
      database.transact(async (inner) => {
        // The session may be gone by now: its rows must not be left behind.
        const [place] = await inner("SELECT 1 FROM sluice.places WHERE session = $1::bigint FOR KEY SHARE", [
          ordinal,
        ]);
        if (!place) return;
        for (const { last, from, outline } of turns)
          await inner(
            `INSERT INTO sluice.turns (session, last, began, outline) VALUES ($1::bigint, $2::bigint, $3::bigint, $4)
             ON CONFLICT DO NOTHING`,
            [ordinal, last, from, outline],
          );
        for (const { at, state } of folds)
          await inner(
            `INSERT INTO sluice.folds (session, at, state) VALUES ($1::bigint, $2::bigint, $3)
             ON CONFLICT DO NOTHING`,
            [ordinal, at, state],
          );
      }),
  };
}
