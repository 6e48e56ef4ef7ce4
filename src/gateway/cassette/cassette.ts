import { Readable } from "node:stream";
import type { CassetteLaunch } from "../../contract/process.ts";
import { AnswerReader } from "../answer-reader.ts";
import type { Answer, Answerer, Exchange as Passing } from "../forward.ts";
import type { Headers } from "../headers.ts";
import type { RecordWriter } from "../record.ts";
import { Refusal } from "../refusal.ts";
import { type Chunk, type Exchange, toChunk } from "./format.ts";
import { maskRequest, type MaskedRequest, type Scrub, sha256 } from "./mask.ts";
import { Player, toAnswer } from "./player.ts";
import { scrubChunks, withPatterns } from "./scrub.ts";
import type { Tape } from "./tape.ts";

/**
 * Removes the session's secrets from bytes; undefined while the engine has not told them. `restore` gives the folders of
 * a recorded answer the names that they have here.
 */
export type ReadScrub = () => Promise<{ scrub: Scrub; restore?: Scrub; hasKey: boolean } | undefined>;

export interface CassetteOptions {
  readonly launch: CassetteLaunch;
  readonly tape: Tape;
  /** Not there in the mode `replay`: nothing leads outside then. */
  readonly provider?: Answerer | undefined;
  readonly readScrub: ReadScrub;
  readonly records: RecordWriter;
  readonly now?: () => number;
}

/** The longest answer that is recorded. */
const LONGEST_ANSWER = 64 * 1024 * 1024;

/** Answers from a cassette, or records the provider's answers on it. */
export function createCassette(options: CassetteOptions): Answerer {
  const { launch, tape, provider, readScrub } = options;
  const player = new Player(tape.exchanges);
  return {
    async answer(passing, asking) {
      const { signal } = asking;
      const known = await readScrub();
      if (known === undefined) throw notReady();
      const scrub = withPatterns(known.scrub);
      const { call, method, body, facts } = passing;
      const path = pathOf(passing);
      const masked = maskRequest({ method, path, body }, { scrub, now: options.now?.() ?? Date.now() });
      if (launch.mode !== "record") {
        const repeats = !call.isModelRequest;
        const found = player.next(masked.key, { agent: facts.agentId, repeats });
        if (found !== undefined)
          return toAnswer(restored(found, known.restore), { speed: launch.speed ?? 0, signal });
      }
      if (provider === undefined || (launch.mode === "auto" && !known.hasKey))
        throw miss(player.explain(masked, method, path), launch);
      const began = performance.now();
      const answer = await provider.answer(passing, asking);
      return new Recording(passing, masked, { ...options, scrub, player, began }).of(answer);
    },
  };
}

function restored(exchange: Exchange, restore: Scrub | undefined): Exchange {
  if (restore === undefined) return exchange;
  const { headers, chunks } = exchange.response;
  const changed = scrubChunks(chunks, { scrub: restore, isStream: isEventStream(headers) });
  return { ...exchange, response: { ...exchange.response, chunks: changed } };
}

function isEventStream(headers: Headers): boolean {
  return /^text\/event-stream\b/i.test(headers["content-type"]?.[0] ?? "");
}

/** Answers each request with the reason for which the cassette cannot be used. */
export function createBroken(why: string): Answerer {
  return {
    answer: () => Promise.reject(new Refusal(400, "cassette_broken", `sluice: ${why}`)),
  };
}

function pathOf({ call }: Passing): string {
  return call.path.split("?", 1)[0] ?? "";
}

function notReady(): Refusal {
  const text =
    "sluice: the server does not answer, and the cassette needs its settings. Try again when it runs.";
  return new Refusal(503, "no_desk", text, 2);
}

function miss(nearest: string, { mode }: CassetteLaunch): Refusal {
  const advice =
    mode === "auto"
      ? "There is no key to record it with."
      : 'Record it again, or use the mode "auto" with a key.';
  return new Refusal(
    400,
    "cassette_miss",
    `sluice: the cassette has no recording of this request. ${nearest} ${advice}`,
  );
}

interface RecordingOptions extends CassetteOptions {
  readonly scrub: Scrub;
  readonly player: Player;
  readonly began: number;
}

/** One exchange on its way to the tape. */
class Recording {
  readonly #passing: Passing;
  readonly #masked: MaskedRequest;
  readonly #options: RecordingOptions;
  #chunks: Chunk[] = [];
  #size = 0;
  #isOver = false;

  constructor(passing: Passing, masked: MaskedRequest, options: RecordingOptions) {
    this.#passing = passing;
    this.#masked = masked;
    this.#options = options;
  }

  of(answer: Answer): Answer {
    return { ...answer, body: Readable.from(this.#tee(answer)) };
  }

  async *#tee(answer: Answer): AsyncGenerator<Buffer> {
    const { wire } = this.#passing.call;
    const reader = new AnswerReader(wire, answer.headers["content-type"]?.[0]);
    try {
      for await (const chunk of answer.body as AsyncIterable<Buffer>) {
        this.#take(chunk);
        reader.write(chunk);
        // Written before the agent can know the end. Gemini may send counts behind its last text.
        if (reader.facts.isDone === true && wire.id !== "gemini") this.#write(answer);
        yield chunk;
      }
      this.#write(answer);
    } catch (error) {
      this.#write(answer, "provider");
      throw error;
    } finally {
      // Writes nothing after one of the ends above. Else the agent has closed the connection.
      this.#write(answer, reader.facts.isDone === true ? undefined : "agent");
      answer.body.destroy();
    }
  }

  #take(chunk: Buffer): void {
    if (this.#isOver) return;
    this.#size += chunk.length;
    if (this.#size > LONGEST_ANSWER) return this.#complain("an answer was too long to be recorded");
    const ms = Math.round((performance.now() - this.#options.began) * 10) / 10;
    this.#chunks.push(toChunk(ms, chunk));
  }

  #write(answer: Answer, cut?: Exchange["cut"]): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { call, method, body, facts } = this.#passing;
    const { tape, player, scrub } = this.#options;
    const { key, shape } = this.#masked;
    const lane = facts.agentId;
    const { model } = facts;
    try {
      const coding = answer.headers["content-encoding"]?.[0] ?? "identity";
      if (coding !== "identity")
        return this.#complain("an answer was compressed, and cannot be searched for secrets");
      const isStream = isEventStream(answer.headers);
      const exchange: Exchange = {
        v: 1,
        wire: call.wire.id,
        provider: call.route.provider,
        key,
        ...(lane === undefined ? {} : { lane }),
        ordinal: player.count(key, lane),
        request: {
          method,
          path: scrubText(pathOf(this.#passing), scrub),
          ...(model === undefined ? {} : { model: scrubText(model, scrub) }),
          body_sha256: sha256(body),
          shape,
        },
        response: {
          status: answer.status,
          headers: toKept(answer.headers, scrub),
          chunks: scrubChunks(this.#chunks, { scrub, isStream }),
        },
        ...(cut === undefined ? {} : { cut }),
      };
      if (!tape.append(exchange))
        return this.#complain("a line could not be written to it; is the disk full?");
      player.add(exchange);
    } catch {
      this.#complain("an answer could not be searched for secrets");
    } finally {
      this.#chunks = [];
    }
  }

  /** The agent goes on without the recording, and the log says that it is not whole. */
  #complain(why: string): void {
    this.#isOver = true;
    this.#chunks = [];
    this.#options.records.write({ type: "cassette", time: Date.now(), why });
  }
}

/** Headers that change what a client does. All others stay out of the file. */
const KEPT = /^(?:content-type|retry-after(?:-ms)?|x-should-retry|(?:anthropic|x)-ratelimit-[a-z-]+)$/;

function toKept(headers: Headers, scrub: Scrub): Headers {
  const kept = Object.entries(headers).filter(([name]) => KEPT.test(name));
  return Object.fromEntries(
    kept.map(([name, values]) => [name, values.map((text) => scrubText(text, scrub))]),
  );
}

function scrubText(text: string, scrub: Scrub): string {
  return scrub(Buffer.from(text)).toString("utf8");
}
