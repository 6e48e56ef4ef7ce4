import "../../styles/files.css";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { client, may, wordsOf } from "../../core/api.ts";
import { toCount } from "../../core/format.ts";
import { isFile, type SessionView } from "../../core/session-view.ts";
import { SafeLink } from "../../parts/markdown.tsx";
import { Changes } from "./changes.tsx";
import { FileView } from "./file-view.tsx";
import { checkpointSource, type Entry, liveSource, type Source } from "./sources.ts";
import { Tree } from "./tree.tsx";

/** The files and changes of the shown moment. */
export function Files({ view }: { view: SessionView }): JSX.Element {
  const [chosen, setChosen] = useState<{ entry: Entry; line?: number } | undefined>(undefined);
  const screen = view.screen.value;
  const found = useSource(view);
  const source = "source" in found ? found.source : undefined;
  const isLive = view.at.value === null;
  const head = view.turns.value.at(-1)?.last ?? 0;
  const open = (path: string, line: number): void => {
    const name = path.split("/").at(-1) ?? path;
    setChosen({ entry: { path, name, kind: "file", size: 0 }, line });
  };
  return (
    <div class="files-pane">
      <section class="files-tree" aria-label="Files">
        <h2>{source ? source.words : "Files"}</h2>
        {source ? (
          <Tree
            source={source}
            version={source.key === "live" ? head : 0}
            chosen={chosen?.entry.path}
            onChoose={(entry) => setChosen({ entry })}
          />
        ) : (
          <p class="empty muted">{"reason" in found ? found.reason : ""}</p>
        )}
        {isLive && !isFile() && may("control") && screen?.moment.sandbox && <Ports session={view.id} />}
      </section>
      <div class="files-main">
        {source && chosen ? (
          <FileView
            source={source}
            entry={chosen.entry}
            line={chosen.line}
            onClose={() => setChosen(undefined)}
          />
        ) : (
          <Changes view={view} {...(source && { onOpen: open })} />
        )}
      </div>
    </div>
  );
}

/** Where the files of the shown moment are: the workspace at the head, or a checkpoint at or before the moment. */
function useSource(view: SessionView): { source: Source } | { reason: string } {
  const screen = view.screen.value;
  const isLive = view.at.value === null;
  const { sandbox = null, checkpoint = null } = screen?.moment ?? {};
  const turn = view.turns.value.findLast(({ first }) => first <= (checkpoint?.sequence ?? 0));
  const isComplete = screen?.complete === true;
  const key = `${isComplete}:${isLive && sandbox !== null}:${checkpoint?.id ?? ""}:${turn?.index ?? 0}`;
  return useMemo(() => {
    // Before the whole log is read nobody knows whether the sandbox still exists, and asking for files could start one.
    if (!isComplete) return { reason: "Reading the log…" };
    if (isFile()) return { reason: "An exported session has no files, only the changes in its log." };
    if (isLive && sandbox !== null) return { source: liveSource(view.id) };
    if (checkpoint) {
      const when = turn ? `as of turn ${turn.index}` : "before the first turn";
      const words = `Files ${when} (checkpoint of event ${toCount(checkpoint.sequence)})`;
      return { source: checkpointSource(view.id, checkpoint.id, words) };
    }
    return {
      reason: isLive
        ? "The session has no sandbox now, so it has no files. Its next message makes one."
        : "No checkpoint lies before this moment, so its files are not known. Checkpoints that are made from now on show the files of their moment; Esc goes back to the files of now.",
    };
  }, [view, key]);
}

/** Asks for links to programs that listen in the sandbox. */
function Ports({ session }: { session: string }): JSX.Element {
  const [port, setPort] = useState("");
  const [links, setLinks] = useState<readonly { port: number; url: string }[]>([]);
  const [failure, setFailure] = useState("");
  const ask = async (): Promise<void> => {
    const number = Number(port);
    try {
      const url = await client.host(session, number);
      const link = { port: number, url: url.href };
      setLinks((links) => [...links.filter((other) => other.port !== number), link].slice(-8));
      setFailure("");
    } catch (error) {
      setFailure(wordsOf(error));
    }
  };
  return (
    <form
      class="ports"
      aria-label="Ports"
      onSubmit={(event) => {
        event.preventDefault();
        void ask();
      }}
    >
      <label>
        Port{" "}
        <input
          type="number"
          min={1}
          max={65_535}
          required
          value={port}
          onInput={(event) => setPort(event.currentTarget.value)}
        />
      </label>
      <button>Get a link</button>
      {failure !== "" && <p class="error">{failure}</p>}
      {links.map((link) => (
        <SafeLink key={link.port} href={link.url}>
          port {link.port}: {link.url}
        </SafeLink>
      ))}
    </form>
  );
}
