import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { wordsOf } from "../../core/api.ts";
import { toBytes, toLine } from "../../core/format.ts";
import { Icon } from "../../parts/icon.tsx";
import { Lines } from "../../parts/lines.tsx";
import type { Entry, Source } from "./sources.ts";

const HEIGHT = 28;

interface Node {
  readonly entry: Entry;
  readonly depth: number;
}

/** The folders of a source, each read when it is opened. Only the visible lines exist. */
export function Tree(props: {
  readonly source: Source;
  /** Reads again when it changes. */
  readonly version: number;
  readonly chosen: string | undefined;
  onChoose(entry: Entry): void;
}): JSX.Element {
  const { source, onChoose } = props;
  const [folders, setFolders] = useState<ReadonlyMap<string, readonly Entry[]>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [failure, setFailure] = useState("");
  const [focus, setFocus] = useState(0);
  const asked = useRef(new AbortController());
  const load = (path: string | undefined): void => {
    const { signal } = asked.current;
    source.list(path, signal).then(
      (entries) => {
        if (signal.aborted) return;
        setFailure("");
        setFolders((known) => new Map(known).set(path ?? "", entries.toSorted(byName)));
      },
      (error: unknown) => signal.aborted || setFailure(wordsOf(error)),
    );
  };
  useEffect(() => {
    asked.current = new AbortController();
    setFolders(new Map());
    load(undefined);
    for (const path of open) load(path);
    return () => asked.current.abort();
  }, [source.key, props.version]);
  const nodes = useMemo(() => flatten(folders, open), [folders, open]);
  const act = (node: Node | undefined): void => {
    if (!node) return;
    const { path, kind } = node.entry;
    if (kind !== "directory") return onChoose(node.entry);
    const next = new Set(open);
    if (!next.delete(path)) {
      next.add(path);
      if (!folders.has(path)) load(path);
    }
    setOpen(next);
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const node = nodes[focus];
    const isFolder = node?.entry.kind === "directory";
    const isOpen = isFolder && open.has(node.entry.path);
    if (event.key === "ArrowDown") setFocus(Math.min(nodes.length - 1, focus + 1));
    else if (event.key === "ArrowUp") setFocus(Math.max(0, focus - 1));
    else if (event.key === "Home") setFocus(0);
    else if (event.key === "End") setFocus(nodes.length - 1);
    else if (event.key === "Enter" || event.key === " ") act(node);
    else if (event.key === "ArrowRight" && isFolder && !isOpen) act(node);
    else if (event.key === "ArrowLeft" && isOpen) act(node);
    else if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    event.preventDefault();
  };
  if (failure !== "") return <p class="empty error">The files could not be read. {failure}</p>;
  if (folders.has("") && nodes.length === 0) return <p class="empty muted">The folder is empty.</p>;
  return (
    <div class="tree" onKeyDown={onKey}>
      <Lines
        count={nodes.length}
        height={HEIGHT}
        focus={focus}
        label="Files. Arrow keys move, Enter opens."
        render={(index) => {
          const node = nodes[index] as Node;
          const { entry } = node;
          const isFolder = entry.kind === "directory";
          const isOpen = open.has(entry.path);
          return (
            <div
              key={entry.path}
              role="listitem"
              class={`tree-line${index === focus ? " current" : ""}${entry.path === props.chosen ? " selected" : ""}`}
              style={{ paddingLeft: `${8 + Math.min(node.depth, 12) * 14}px` }}
            >
              <button
                tabIndex={-1}
                {...(isFolder && { "aria-expanded": isOpen })}
                onClick={() => {
                  setFocus(index);
                  act(node);
                }}
              >
                <Icon name={isFolder ? (isOpen ? "down" : "next") : "file"} />
                <span class="tree-name">
                  {toLine(entry.name, 120)}
                  {isFolder ? "/" : ""}
                  {entry.kind === "symlink" && (
                    <span class="muted"> → {toLine(entry.target ?? "link", 80)}</span>
                  )}
                </span>
                {!isFolder && <span class="muted">{toBytes(entry.size)}</span>}
              </button>
            </div>
          );
        }}
      />
    </div>
  );
}

function flatten(folders: ReadonlyMap<string, readonly Entry[]>, open: ReadonlySet<string>): Node[] {
  const nodes: Node[] = [];
  const visit = (path: string, depth: number): void => {
    for (const entry of folders.get(path) ?? []) {
      nodes.push({ entry, depth });
      if (entry.kind === "directory" && open.has(entry.path) && depth < 60) visit(entry.path, depth + 1);
    }
  };
  visit("", 0);
  return nodes;
}

function byName(a: Entry, b: Entry): number {
  if ((a.kind === "directory") !== (b.kind === "directory")) return a.kind === "directory" ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}
