import type { EventData, EventDraft } from "../../contract/index.ts";
import { wholeCharacters } from "../../spool/index.ts";
import type { SessionContext } from "../context.ts";
import type { Drafts } from "../fold/drafts.ts";
import type { HarnessProcess } from "./process.ts";

const LOOK_MS = 200;
const MOST_BYTES = 1024 * 1024;

/** The raw output of a process as `process.output` events, beside the decoded events. */
export class Echo {
  readonly #process: HarnessProcess;
  readonly #context: SessionContext;
  #timer: NodeJS.Timeout | undefined;
  #seen = 0;

  constructor(process: HarnessProcess, context: SessionContext) {
    this.#process = process;
    this.#context = context;
  }

  /** Stderr has no follower, so it is polled. */
  start(): void {
    this.#timer = setInterval(() => this.#context.inBackground(this.#look()), LOOK_MS);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** The bytes of `out` between two offsets: whole lines, or the end. */
  async stdout(drafts: Drafts, from: number, to: number): Promise<void> {
    const most = to - from;
    const bytes = most > 0 ? await this.#process.spool.read("out", { from, most }) : Buffer.alloc(0);
    const { redactor, ordinal: process } = this.#process;
    const text = (): string => bytes.toString("utf8").split("\n").map(redactor.line).join("\n");
    if (bytes.length > 0) drafts.add(toOutput({ process, stream: "stdout", text: text(), offset: to }));
  }

  /**
   * Adds the new bytes of `err`. An incomplete line is held back until it is complete or the turn ends. A possible
   * beginning of a secret is held back until the process ends.
   */
  async stderr(drafts: Drafts, { upTo }: { upTo: "line" | "turn" | "process" }): Promise<void> {
    const { redactor, ordinal: process, spool } = this.#process;
    // Stderr has a copier of its own, which may be behind the copier of stdout.
    if (upTo === "turn") await spool.copied();
    for (let from = this.#context.writer.fold.echoed ?? 0; ;) {
      const bytes = await spool.read("err", { from, most: MOST_BYTES + redactor.reach });
      const isAll = bytes.length < MOST_BYTES;
      const cut = isAll && upTo === "line" ? bytes.lastIndexOf(10) + 1 : wholeCharacters(bytes);
      const held = isAll && upTo === "process" ? 0 : redactor.held(bytes.subarray(0, cut));
      const end = isAll && upTo === "process" ? bytes.length : cut - held;
      if (end > 0) {
        const text = redactor.text(bytes.toString("utf8", 0, end));
        drafts.add(toOutput({ process, stream: "stderr", text, offset: from + end }));
      }
      if (isAll || upTo === "line" || end === 0) return;
      from += end;
    }
  }

  async #look(): Promise<void> {
    const { writer, exclusive, commit, isClosed } = this.#context;
    const size = await this.#process.spool.errorLength();
    if (size === this.#seen || isClosed()) return;
    this.#seen = size;
    await exclusive(async () => {
      if (this.#timer === undefined) return;
      const drafts = writer.drafts();
      await this.stderr(drafts, { upTo: "line" });
      if (drafts.events.length > 0) await commit(drafts);
    });
  }
}

function toOutput(data: EventData<"process.output">): EventDraft {
  return { type: "process.output", source: "agent", data };
}
