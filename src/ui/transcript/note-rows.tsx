import type { JSX } from "preact";
import { say } from "../core/announce.ts";
import { client, may, wordsOf } from "../core/api.ts";
import { toLine } from "../core/format.ts";
import { isFile } from "../core/session-view.ts";
import { Code } from "../parts/code.tsx";
import { Icon } from "../parts/icon.tsx";
import type { EventType } from "../../contract/index.ts";
import { EVENT_WORDS } from "./event-words.ts";
import { type RowProps, Summary } from "./summary.tsx";

/** A checkpoint. Its files can be restored while the session is shown live. */
export function CheckpointRow({ row, view }: RowProps): JSX.Element {
  const { comment, checkpoint_id: id } = parse(row.data) as { comment?: string; checkpoint_id?: string };
  const verb = row.type === "checkpoint.restored" ? "Restored" : "Checkpoint";
  return (
    <p class="line">
      <Icon name="flag" /> {verb} {comment ? `“${toLine(comment)}”` : <code>{id}</code>}{" "}
      {id !== undefined && may("control") && !isFile() && view.at.value === null && (
        <button
          class="quiet"
          aria-label={`Restore the files of event ${row.sequence}`}
          onClick={() =>
            client.checkpoints.restore(view.id, id).then(
              () => say("Files restored"),
              (error: unknown) => say(wordsOf(error), "bad"),
            )
          }
        >
          Restore
        </button>
      )}
    </p>
  );
}

export function FilesRow({ row }: RowProps): JSX.Element {
  const entries = row.entries ?? [];
  const shown = entries.slice(-6);
  return (
    <p class="line muted">
      {entries.length} file {entries.length === 1 ? "change" : "changes"}:{" "}
      {shown.map(({ type, path }) => `${type} ${toLine(path, 80)}`).join(", ")}
      {entries.length > shown.length && " …"}
    </p>
  );
}

/** Every other event: its type, a sentence, and its data on request. A type that is not known shows its data at once. */
export function NoteRow(props: RowProps): JSX.Element {
  const { row, isOpen } = props;
  const name = row.name ?? row.type;
  return (
    <div class={row.kind === "error" || name === "turn.ended" ? "note error" : "note"}>
      <Summary {...props} label={name}>
        <code>{name || "…"}</code>{" "}
        <span class="note-text">
          {[EVENT_WORDS[name as EventType], toSentence(row.data)].filter(Boolean).join(": ")}
        </span>
      </Summary>
      {isOpen && <Code text={row.data ?? ""} language="json" />}
    </div>
  );
}

const TELLING = [
  "message",
  "reason",
  "signal",
  "stop_reason",
  "error",
  "summary",
  "title",
  "harness",
  "provider",
  "model",
  "name",
  "text",
  "status",
  "via",
  "location",
];

function toSentence(data: string | undefined): string {
  const fields = parse(data);
  const told = TELLING.flatMap((name) => {
    const value = fields[name];
    if (typeof value === "string") return [value];
    const inner = (value as { message?: unknown } | undefined)?.message;
    return typeof inner === "string" ? [inner] : [];
  });
  return toLine(told.slice(0, 3).join(" · "), 300);
}

function parse(data: string | undefined): Record<string, unknown> {
  try {
    return JSON.parse(data ?? "{}") as Record<string, unknown>;
  } catch {
    return {};
  }
}
