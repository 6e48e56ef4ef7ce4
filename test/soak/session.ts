import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { CreateSession, SluiceEvent } from "../../src/contract/index.ts";
import { expectLawful } from "../support/laws.ts";
import type { TestServer } from "../support/server.ts";
import type { Chance } from "./chance.ts";
import { type DialectReader, readAgUi, readAnthropic, readNdjson, readUniversal } from "./dialects.ts";
import { ANY, insist } from "./insist.ts";

/** How long a turn may take to come to its end, faults and other turns included. */
const REST_MS = 120_000;

/** One session of the soak: the promises to its client, and the frames of its readers. */
export class SoakedSession {
  readonly id: string;
  /** The turns of the inputs that were accepted. */
  readonly accepted: string[] = [];
  readonly #server: TestServer;
  readonly #chance: Chance;
  readonly #readers: DialectReader[];

  /** Nothing where another one was to be copied that is busy. */
  static async make(
    server: TestServer,
    id: string,
    spec: CreateSession,
    chance: Chance,
  ): Promise<SoakedSession | undefined> {
    const { sessions } = server.client;
    await insist(() => sessions.create(id, spec), ["session_already_exists", "session_busy"]);
    const made = await insist(() => sessions.get(id), ["session_not_found"]);
    return made && new SoakedSession(server, id, spec.agent ?? "", chance);
  }

  private constructor(server: TestServer, id: string, agent: string, chance: Chance) {
    this.#server = server;
    this.id = id;
    this.#chance = chance;
    this.#readers = [
      readUniversal(server, id, chance, (data) => void this.#answer(JSON.parse(data) as SluiceEvent)),
      readAgUi(server, id, agent, chance),
      readAnthropic(server, id, chance),
    ];
  }

  async send(message: string): Promise<void> {
    const { client } = this.#server;
    const idempotencyKey = `${this.id}-${this.accepted.length}`;
    const sent = await insist(
      () => client.sendMessage(this.id, message, { idempotencyKey }),
      ["session_ended"],
    );
    if (sent === undefined) return;
    this.accepted.push(sent.turnId);
    this.#readers.push(readNdjson(this.#server, this.id, sent.turnId, this.#chance));
  }

  /** Other calls of its clients: interrupts, pauses, commands, uploads. */
  async meddle(): Promise<void> {
    const { client } = this.#server;
    const { id } = this;
    const chance = this.#chance;
    if (chance.is(0.2)) await insist(() => client.interrupt(id), ANY);
    if (chance.is(0.1)) await insist(() => client.pause(id), ANY);
    if (chance.is(0.2)) await insist(() => client.runCommand(id, { command: "echo hi" }), ANY);
    await insist(() => client.resume(id), ANY);
    if (chance.is(0.2)) await this.#upload(Buffer.alloc(chance.below(200_000), "x"));
  }

  async #upload(bytes: Uint8Array): Promise<void> {
    const { fs } = this.#server.client;
    const path = "uploaded.bin";
    let isThere = false;
    await insist(async () => {
      await fs.write(this.id, path, bytes);
      isThere = true;
    }, ANY);
    if (!isThere) return;
    const back = await insist(() => fs.read(this.id, path), ANY);
    if (back !== undefined) expect(Buffer.compare(back, bytes), `${this.id}: what was uploaded`).toBe(0);
  }

  /** At any moment. */
  async remove(): Promise<void> {
    await insist(() => this.#server.client.sessions.delete(this.id), ["session_not_found"]);
    this.stop();
    const found = await insist(() => this.#server.client.sessions.get(this.id), ["session_not_found"]);
    expect(found, `${this.id} is deleted`).toBeUndefined();
  }

  /** Waits until it is idle, closes it, and compares every reader's frames with the log. Returns the log and the counts. */
  async check(
    does: (what: string) => unknown,
  ): Promise<{ events: readonly SluiceEvent[]; frames: Readonly<Record<string, number>> }> {
    const { client } = this.#server;
    const { id } = this;
    let status = "";
    does("wait for rest");
    for (const deadline = Date.now() + REST_MS; !/^(idle|ended)$/.test(status); await sleep(150)) {
      status = (await insist(() => client.sessions.get(id)))?.status ?? "";
      if (Date.now() > deadline) throw new Error(`${id} does not come to rest: it is ${status}`);
    }
    does("terminate");
    await insist(() => client.terminate(id), ["session_ended"]);
    const events = (await insist(() => client.getEvents(id, { extensions: true }))) ?? [];
    expectLawful(events);
    expect(
      events.some(({ type }) => type === "session.ended"),
      `${id} is closed`,
    ).toBe(true);
    for (const turn of this.accepted) {
      const ended = events.filter((event) => event.type === "turn.ended" && event.turn_id === turn);
      expect(ended.length, `turn ${turn} of ${id} ends once`).toBe(1);
    }
    const inputs = events.filter(({ type }) => type === "input.accepted").length;
    expect(inputs, `inputs of ${id}`).toBe(this.accepted.length);
    const frames: Record<string, number> = {};
    for (const { dialect, live, check } of this.#readers) {
      does(`compare ${dialect}`);
      await check();
      frames[dialect] = (frames[dialect] ?? 0) + live.frames.length;
    }
    return { events, frames };
  }

  stop(): void {
    for (const { live } of this.#readers) live.stop();
  }

  /** Its history and the end of its log, for the report of a finding. */
  async tell(journal: readonly string[]): Promise<string> {
    const events: SluiceEvent[] = await this.#server.client
      .getEvents(this.id, { extensions: true })
      .catch(() => []);
    const boot = events.find((event) => event.type === "sandbox.boot");
    const names = [`/spools/${this.id}:`, `/spools/${this.id} `, boot?.data.sandbox_id ?? "none", "the "];
    const happened = journal.slice(-400).filter((line) => names.some((name) => line.includes(name)));
    const types = events.map(({ time, type }) => `${time} ${type}`).slice(-40);
    const last = events.slice(-3).map((event) => JSON.stringify(event).slice(0, 1_000));
    return [...happened, ...types, ...last].join("\n");
  }

  async #answer(event: SluiceEvent): Promise<void> {
    const { client } = this.#server;
    if (event.type === "permission.requested") {
      const reply = { reply: this.#chance.pick(["once", "reject"] as const) };
      await insist(() => client.replyPermission(this.id, event.data.permission_id, reply), ANY);
    }
    if (event.type === "question.requested") {
      const { question_id, options } = event.data;
      await insist(() => client.replyQuestion(this.id, question_id, [[options[0] ?? "yes"]]), ANY);
    }
  }
}
