import type { ComponentChildren, JSX } from "preact";
import { toClock, toCost, toCount, toLine, toSpan, toTokens } from "../core/format.ts";
import type { RowView } from "../log/protocol.ts";
import { Ansi } from "../parts/ansi.tsx";
import { Code } from "../parts/code.tsx";
import { countChanges, Diff } from "../parts/diff.tsx";
import { Markdown } from "../parts/markdown.tsx";
import { Status } from "../parts/status.tsx";
import { Ask } from "./ask.tsx";
import { EVENT_WORDS } from "./event-words.ts";
import { CheckpointRow, FilesRow, NoteRow } from "./note-rows.tsx";
import { type RowProps, Summary } from "./summary.tsx";
import { describeTool, type ToolWords } from "./tool-words.ts";

/** One row of the transcript. */
export function RowBody(props: RowProps): ComponentChildren {
  switch (props.row.kind) {
    case "turn":
      return <TurnRow {...props} />;
    case "message":
      return <MessageRow {...props} />;
    case "thought":
      return <ThoughtRow {...props} />;
    case "tool":
      return <ToolRow {...props} />;
    case "ask":
      return props.row.ask ? <Ask view={props.view} ask={props.row.ask} time={props.row.time} /> : null;
    case "plan":
      return <PlanRow {...props} />;
    case "diff":
      return <DiffRow {...props} />;
    case "command":
      return <CommandRow {...props} />;
    case "checkpoint":
      return <CheckpointRow {...props} />;
    case "files":
      return <FilesRow {...props} />;
    case "status":
      return <StatusRow {...props} />;
    default:
      return <NoteRow {...props} />;
  }
}

/** Whether a row shows its details before anybody opens it. */
export function opensAtFirst(row: RowView): boolean {
  if (row.kind === "diff") return true;
  if (row.kind === "note" && row.type !== "" && !Object.hasOwn(EVENT_WORDS, row.type)) return true;
  return row.kind === "tool" && (row.diffs !== undefined || row.failed === true);
}

function TurnRow({ row, view }: RowProps): JSX.Element | null {
  const { turn } = row;
  if (!turn) return null;
  const moment = view.moment.value;
  const status = moment?.turnId === turn.id ? moment.status : turn.status;
  const range = turn.last > 0 ? `${toCount(turn.first)}–${toCount(turn.last)}` : `${toCount(turn.first)}–`;
  return (
    <div class="turn-row">
      <h2>Turn {turn.index}</h2>
      <Status status={status} />
      <span class="facts">
        <time>{toClock(turn.startedAt)}</time>
        {turn.endedAt > 0 && <span>{toSpan(turn.endedAt - turn.startedAt)}</span>}
        {toTokens(turn.usage) && <span>{toTokens(turn.usage)}</span>}
        {turn.usage.cost_usd !== undefined && <span>{toCost(turn.usage)}</span>}
        <span>seq {range}</span>
      </span>
    </div>
  );
}

function MessageRow({ row }: RowProps): JSX.Element {
  const isUser = row.role === "user";
  return (
    <div class={isUser ? "message message-user" : "message"}>
      {isUser && <span class="author">you</span>}
      {isUser ? <p class="plain">{row.text}</p> : <Markdown text={row.text ?? ""} open={row.open} />}
      {row.open && !isUser && <span class="caret" aria-hidden="true" />}
      <Images row={row} />
      <Cut row={row} />
    </div>
  );
}

function Images({ row }: { row: RowView }): JSX.Element {
  return (
    <>
      {row.images?.map((path, index) =>
        /^data:image\/(?:png|jpeg|gif|webp);base64,/.test(path) ? (
          <img key={index} class="picture" src={path} alt="from the agent" />
        ) : (
          <p key={index} class="muted">
            image: {toLine(path)}
          </p>
        ),
      )}
    </>
  );
}

function Cut({ row }: { row: RowView }): JSX.Element | null {
  if (row.cut === undefined) return null;
  return <p class="muted">{toCount(row.cut)} more characters are in the log. Press r for the whole event.</p>;
}

function ThoughtRow(props: RowProps): JSX.Element {
  const { row, isOpen } = props;
  return (
    <div class="thought">
      <Summary {...props} label="thought">
        <span class="muted">{row.open ? "thinking…" : `thought (${toSpan(row.endTime - row.time)})`}</span>
      </Summary>
      {isOpen && <Markdown text={row.text ?? ""} open={row.open} />}
    </div>
  );
}

function ToolRow(props: RowProps): JSX.Element {
  const { row, isOpen, view } = props;
  const words = describeTool(row.name ?? "", row.input ?? "");
  return (
    <div class={row.failed ? "tool tool-failed" : "tool"}>
      <Summary {...props} label={words.title}>
        <span class="tool-sign" aria-hidden="true">
          {words.sign}
        </span>
        <span class="tool-title">{toLine(words.title, 300)}</span>
        <ToolFacts row={row} />
      </Summary>
      {row.nested && (
        <button
          class="nested"
          onClick={() => {
            const { value } = view.hidden;
            view.hidden.value = row.nested?.hidden ? value.filter((id) => id !== row.id) : [...value, row.id];
          }}
        >
          {row.nested.hidden ? "show" : "hide"} the sub-agent’s {row.nested.count}{" "}
          {row.nested.count === 1 ? "row" : "rows"}
        </button>
      )}
      {isOpen && <ToolDetails row={row} words={words} />}
      <Images row={row} />
    </div>
  );
}

function ToolFacts({ row }: { row: RowView }): JSX.Element {
  const changes = (row.diffs ?? []).map(({ diff }) => countChanges(diff));
  const added = changes.reduce((sum, one) => sum + one.added, 0);
  const removed = changes.reduce((sum, one) => sum + one.removed, 0);
  return (
    <span class="facts">
      {row.diffs && (
        <span>
          <span class="added">+{added}</span> <span class="removed">−{removed}</span>
        </span>
      )}
      {row.open && <Status status="running" />}
      {row.failed && <Status status="failed" />}
      {!row.open && <span>{toSpan(row.endTime - row.time)}</span>}
    </span>
  );
}

function ToolDetails({ row, words }: { row: RowView; words: ToolWords }): JSX.Element {
  return (
    <div class="details">
      {words.input !== "" && <Code text={words.input} language={words.language} />}
      {row.diffs?.map(({ path, diff }, index) => (
        <Diff key={index} diff={diff} label={path} />
      ))}
      {row.output && (row.diffs === undefined || row.failed) && <Ansi text={row.output} />}
      <Cut row={row} />
    </div>
  );
}

function PlanRow({ row }: RowProps): JSX.Element {
  const entries = row.plan ?? [];
  const done = entries.filter(({ status }) => status === "completed").length;
  return (
    <div class="plan">
      <span class="muted">
        plan {done}/{entries.length}
      </span>
      <PlanList entries={entries} />
    </div>
  );
}

export function PlanList({ entries }: { entries: NonNullable<RowView["plan"]> }): JSX.Element {
  return (
    <ul class="plan-list">
      {entries.slice(0, 50).map(({ content, status }, index) => (
        <li key={index} class={`plan-${status}`}>
          <span aria-hidden="true">
            {status === "completed" ? "✓" : status === "in_progress" ? "▸" : "·"}
          </span>
          <span class="sr-only">{status.replace("_", " ")}: </span>
          {toLine(content)}
        </li>
      ))}
    </ul>
  );
}

function DiffRow(props: RowProps): JSX.Element {
  const { row, isOpen } = props;
  return (
    <div class="tool">
      <Summary {...props} label="changes of the turn">
        <span class="tool-sign" aria-hidden="true">
          ±
        </span>
        <span class="tool-title">Changes of the turn</span>
        <ToolFacts row={row} />
      </Summary>
      {isOpen && row.diffs?.map(({ path, diff }, index) => <Diff key={index} diff={diff} label={path} />)}
    </div>
  );
}

function CommandRow(props: RowProps): JSX.Element {
  const { row, isOpen } = props;
  return (
    <div class={row.failed ? "tool tool-failed" : "tool"}>
      <Summary {...props} label={row.name ?? ""}>
        <span class="tool-sign" aria-hidden="true">
          $
        </span>
        <span class="tool-title">{toLine(row.name ?? "", 300)}</span>
        <span class="facts">
          <span>by you</span>
          {row.exit !== undefined && <span>exit {row.exit}</span>}
          {row.open ? <Status status="running" /> : <span>{toSpan(row.endTime - row.time)}</span>}
        </span>
      </Summary>
      {isOpen && <Cut row={row} />}
      {isOpen && row.output !== "" && <Ansi text={row.output ?? ""} />}
    </div>
  );
}

function StatusRow(props: RowProps): JSX.Element {
  const { row } = props;
  if (row.diffs) return <DiffRow {...props} />;
  return (
    <div class={row.failed ? "line error" : "line muted"}>
      <Markdown text={(row.text ?? "").slice(0, 4_000)} />
    </div>
  );
}
