import type { Command } from "commander";
import { SessionId } from "../../contract/index.ts";
import { type Copied, copyPlanned, type Plan, planCopy } from "../copy/copy.ts";
import { createLocalSide, createSandboxSide } from "../copy/sides.ts";
import { unknownSession } from "../source/folder.ts";
import { addWhereOptions, locateSandboxes, type WhereOptions } from "../source/locate.ts";
import type { Sandboxes } from "../source/port.ts";
import { toCount, toSize } from "../terminal/amount.ts";
import { badUsage, CliFailure, EXIT } from "../terminal/failure.ts";
import { type CommandContext, onInterrupt, type Screen } from "../terminal/screen.ts";
import { toOneLine } from "../transcript/pen.ts";

const EXAMPLES = `
One side is SESSION:PATH, a path in the session's sandbox, absolute or relative to its workspace; the other
is a local path. Folders are copied with their contents. An existing target folder gets the source folder under its
own name; a source that ends in /. gives its contents alone. Links are skipped, with a note.
Contents are copied, not permission bits. A local path with a colon in it needs ./ in front.

Examples:
  sluice cp notes.md my-session:
  sluice cp ./src my-session:src
  sluice cp my-session:/mnt/session/outputs ./results
  sluice cp my-session:. ./workspace-copy
  sluice cp --json my-session:report.pdf . | jq .bytes

Exit codes: 0 done · 1 failed, or some files could not be copied · 2 bad usage · 130 interrupted
`;

interface CpOptions extends WhereOptions {
  readonly json?: boolean;
}

export function addCp(program: Command, context: CommandContext): void {
  const command = program
    .command("cp")
    .description("Copy files and folders into a session's sandbox, or out of it.")
    .argument("<src>", "the source: a local path, or SESSION:PATH")
    .argument("<dst>", "the destination, likewise; one of both is in a sandbox")
    .option("--json", "a summary as one JSON object");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action(async (src: string, dst: string, options: CpOptions) => {
      context.exit(await cp(src, dst, options, context.screen));
    });
}

async function cp(src: string, dst: string, options: CpOptions, screen: Screen): Promise<number> {
  const [from, to] = [parseCopyEnd(src), parseCopyEnd(dst)];
  if (from.kind === to.kind) throw wrongSides(from.kind);
  const stop = new AbortController();
  const unhook = onInterrupt(() => stop.abort());
  const { signal } = stop;
  const sandboxes = await locateSandboxes(options);
  try {
    const [source, target] = [await openEnd(from, sandboxes), await openEnd(to, sandboxes)];
    const progress = new Progress(screen);
    const plan = await planCopy(source, target, { signal, onFound: (files) => progress.found(files) });
    for (const { path, reason } of plan.skipped) screen.note(`sluice: skipped ${printable(path)}: ${reason}`);
    const sides = { source: source.side, target: target.side };
    const copied = await copyPlanned(plan, sides, { signal, onProgress: (now) => progress.moved(now, plan) });
    for (const { path, reason } of copied.failed) screen.fail(`${printable(path)}: ${reason}`);
    await report(plan, copied, { src, to: target.side.show(plan.to), json: options.json ?? false }, screen);
    return copied.failed.length > 0 ? EXIT.failed : EXIT.ok;
  } catch (error) {
    if (signal.aborted) throw new CliFailure("Stopped; what was copied stays.", EXIT.interrupted);
    throw error;
  } finally {
    screen.status("");
    unhook();
    await sandboxes.close();
  }
}

async function report(
  plan: Plan,
  { files, folders, bytes, failed }: Copied,
  { src, to, json }: { src: string; to: string; json: boolean },
  screen: Screen,
): Promise<void> {
  if (json) {
    const summary = { from: src, to, files, folders, bytes, skipped: plan.skipped, failed };
    return screen.line(JSON.stringify(summary));
  }
  if (screen.isWatched)
    screen.note(`Copied ${toCount(files, "file")}, ${toSize(bytes)}, to ${printable(to)}`);
}

async function openEnd(end: CopyEnd, sandboxes: Sandboxes) {
  if (end.kind === "local") return { side: createLocalSide(end.path), path: end.path };
  const { session, path } = await findSession(end.readings, sandboxes);
  return { side: createSandboxSide(sandboxes.files(session), session), path };
}

async function findSession(readings: readonly SandboxPath[], sandboxes: Sandboxes): Promise<SandboxPath> {
  for (const reading of readings) if (await sandboxes.has(reading.session)) return reading;
  throw unknownSession(readings[0]?.session ?? "", sandboxes.where);
}

function wrongSides(kind: CopyEnd["kind"]): CliFailure {
  const why =
    kind === "local"
      ? "Neither side names a session. Write the one in the sandbox as SESSION:PATH."
      : "Both sides name a session. Copy to this machine first; a local path with a colon needs ./ in front.";
  return badUsage(why);
}

/** A status line, updated a few times a second. */
class Progress {
  readonly #screen: Screen;
  #shown = 0;

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  found(files: number): void {
    this.#show(() => `found ${toCount(files, "file")}`);
  }

  moved({ files, bytes }: Copied, plan: Plan): void {
    const total = (): number => plan.files.reduce((sum, file) => sum + file.size, 0);
    this.#show(
      () => `${files} of ${toCount(plan.files.length, "file")} · ${toSize(bytes)} of ${toSize(total())}`,
    );
  }

  #show(text: () => string): void {
    const now = Date.now();
    if (!this.#screen.isWatched || now - this.#shown < 100) return;
    this.#shown = now;
    this.#screen.status(text());
  }
}

function printable(path: string): string {
  return toOneLine(path, 200);
}

/** One end of a copy, as a person names it. */
export type CopyEnd =
  | { readonly kind: "local"; readonly path: string }
  /** An id may contain colons, so there may be several readings; the first existing session counts. */
  | { readonly kind: "sandbox"; readonly readings: readonly SandboxPath[] };

export interface SandboxPath {
  readonly session: string;
  readonly path: string;
}

/** `SESSION:PATH`, or a local path; `./a:b` is always local. */
export function parseCopyEnd(text: string): CopyEnd {
  if (text === "") throw badUsage('A path is empty. "." is this folder, SESSION:. the workspace.');
  const readings: SandboxPath[] = [];
  for (let colon = text.indexOf(":"); colon > 0; colon = text.indexOf(":", colon + 1)) {
    const session = text.slice(0, colon);
    if (!SessionId.safeParse(session).success) break;
    readings.push({ session, path: text.slice(colon + 1) || "." });
  }
  return readings.length > 0 ? { kind: "sandbox", readings } : { kind: "local", path: text };
}
