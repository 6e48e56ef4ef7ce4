import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { collect } from "../../http/anthropic/anthropic-bench.ts";
import {
  type Event,
  history,
  isHalt,
  makeSession,
  message,
  ofType,
  text,
  typesOf,
  watch,
  wordsOf,
} from "../../http/anthropic/session-bench.ts";
import { reader, useReader } from "./page.ts";
import { sendFile } from "./samples.ts";
import { block, CLOSED, errorsOf, idle } from "./answers.ts";

useReader();

describe("Session Update Events", () => {
  it("appends session.updated when a supported field actually changes. The event includes only changed official fields.", async () => {
    const { id, agentId } = await makeSession(reader, { session: { title: "a", metadata: { k: "1" } } });
    const { sessions } = reader.beta;
    const vault = await reader.beta.vaults.create({ display_name: "v" });
    await sessions.update(id, { title: "a", metadata: { k: "1", absent: null } });
    await sessions.update(id, {});
    await sessions.update(id, { vault_ids: [vault.id] });
    expect(await history(reader, id)).toEqual([]);
    await sessions.update(id, { title: "b", metadata: { k: "1" }, vault_ids: [] });
    await sessions.update(id, { title: "b", metadata: { k: null, l: "2" } });
    await sessions.update(id, { title: null });
    await sessions.update(id, { agent: { tools: [] } });
    await sessions.update(id, { agent: { tools: [] } });
    const told = (await history(reader, id)) as unknown as Record<string, unknown>[];
    const base = { id: expect.any(String), processed_at: expect.any(String) };
    expect(told).toEqual([
      { ...base, type: "session.updated", title: "b" },
      { ...base, type: "session.updated", metadata: { l: "2" } },
      { ...base, type: "session.updated", title: null },
      { ...base, type: "session.updated", agent: expect.objectContaining({ id: agentId, tools: [] }) },
    ]);
    expect(await sessions.retrieve(id)).toMatchObject({ title: null, metadata: { l: "2" }, vault_ids: [] });
  });
});

describe("Retry Events", () => {
  it("retrying, rescheduled, running: The same run resumed and is producing output or completion events again", async () => {
    const { id } = await makeSession(reader);
    const states: string[] = [];
    const stream = await reader.beta.sessions.events.stream(id);
    await reader.send(id, message(text({ fail: { kind: "bad_gateway", times: 2 } }, { say: "at last" })));
    const events: Event[] = [];
    for await (const event of stream) {
      events.push(event);
      if (event.type === "session.status_rescheduled")
        states.push((await reader.beta.sessions.retrieve(id)).status);
      if (isHalt(event)) break;
    }
    const told = typesOf(events).filter((type) => type.startsWith("session.") || type.startsWith("user."));
    expect(told).toEqual([
      "user.message",
      "session.status_running",
      "session.error",
      "session.status_rescheduled",
      "session.status_running",
      "session.error",
      "session.status_rescheduled",
      "session.status_running",
      "session.status_idle",
    ]);
    expect(errorsOf(events)).toEqual([
      ["model_request_failed_error", "retrying"],
      ["model_request_failed_error", "retrying"],
    ]);
    expect(states).toContain("rescheduling");
    expect(wordsOf(events)).toEqual(["at last"]);
  });

  it("session.status_idle with stop_reason.type = retries_exhausted | The retry budget was exhausted and the turn ended without success", async () => {
    const { id } = await makeSession(reader);
    const events = await reader.run(id, { fail: { kind: "overloaded", times: 99 } });
    expect(idle(events)?.stop_reason).toEqual({ type: "retries_exhausted" });
    expect(errorsOf(events).at(-1)).toEqual(["model_overloaded_error", "exhausted"]);
    expect(errorsOf(events).filter(([, retry]) => retry === "exhausted")).toHaveLength(1);
    expect((await reader.beta.sessions.retrieve(id)).status).toBe("idle");
    expect(wordsOf(await reader.run(id, { say: "again" }))).toEqual(["again"]);
  });

  it("session.status_terminated | The error was terminal and the session is no longer active", async () => {
    const { id } = await makeSession(reader);
    const events = await watch(
      reader,
      id,
      () => reader.send(id, message(text({ fail: { kind: "terminal" } }))),
      () => false,
    );
    expect(typesOf(events).slice(-2)).toEqual(["session.error", "session.status_terminated"]);
    expect(errorsOf(events)).toEqual([["model_request_failed_error", "terminal"]]);
    expect((await reader.beta.sessions.retrieve(id)).status).toBe("terminated");
    await expect(reader.send(id, message("hello?"))).rejects.toMatchObject(CLOSED);
    expect((await history(reader, id)).at(-1)).toEqual(events.at(-1));
  });

  it("Do not send duplicate user input when a session is rescheduling: what is sent all the same waits, and runs once", async () => {
    const { id } = await makeSession(reader);
    const first = message(text({ fail: { kind: "overloaded", times: 1 } }, { say: "one" }));
    await reader.tell(id, [first], ({ type }) => type === "session.status_rescheduled");
    const ended = watch(
      reader,
      id,
      async () => {},
      (event) => event.type === "agent.message" && wordsOf([event])[0] === "two",
    );
    const [sent] = await reader.send(id, message(text({ say: "two" })));
    expect(sent).toMatchObject({ processed_at: null });
    await ended;
    expect(wordsOf(await history(reader, id))).toEqual(["one", "two"]);
    expect(ofType(await history(reader, id), "user.message")).toHaveLength(2);
  });
});

describe("File-Backed Input", () => {
  it("Uploaded files can be referenced from message content: the page's own code, and the agent reads the file", async () => {
    const file = new File(["the quarterly numbers"], "numbers.txt", { type: "text/plain" });
    const uploaded = await reader.beta.files.upload({ file });
    const session = await makeSession(reader);
    const events = await watch(reader, session.id, () => sendFile(reader.client, session, uploaded));
    expect(ofType(events, "user.message")).toMatchObject([
      {
        content: [
          block("Summarize this document."),
          {
            type: "document",
            source: { type: "file", file_id: uploaded.id },
            title: "input",
            citations: { enabled: true },
          },
        ],
      },
    ]);
    expect(idle(events)?.stop_reason).toEqual({ type: "end_turn" });
    const read = await reader.run(session.id, { shell: "cat /mnt/session/uploads/*/numbers.txt" });
    expect(JSON.stringify(ofType(read, "agent.tool_result"))).toContain("the quarterly numbers");
  });

  it("See Files for upload, session-scoped copies, and output files.", async () => {
    const { beta } = reader;
    const file = new File(["copied"], "in.txt", { type: "text/plain" });
    const uploaded = await beta.files.upload({ file });
    const { id } = await makeSession(reader);
    const copy = await beta.sessions.resources.add(id, { type: "file", file_id: uploaded.id });
    expect(copy.file_id).not.toBe(uploaded.id);
    await beta.files.delete(uploaded.id);
    await reader.run(id, {
      shell: `cat ${copy.mount_path} > /mnt/session/outputs/out.txt`,
    });
    const found = await collect(beta.files.list({ scope_id: id }));
    const output = found.find(({ filename }) => filename === "out.txt");
    expect(output).toMatchObject({ type: "file", scope: { type: "session", id }, size_bytes: 6 });
    expect(await (await beta.files.download(output?.id ?? "")).text()).toBe("copied");
  });
});

describe("Notes and Next Steps", () => {
  it("Runtime callbacks are signed before being appended to the session log.", async () => {
    const { id } = await makeSession(reader);
    const before = await history(reader, id);
    const unsigned = await reader.server.fetch(`/anthropic/v1/sessions/${id}/callbacks`, {
      method: "POST",
      headers: { "anthropic-beta": "managed-agents-2026-04-01", "content-type": "application/json" },
      body: JSON.stringify({ events: [{ type: "session.error", message: "forged" }] }),
    });
    expect(unsigned.status).toBeGreaterThanOrEqual(400);
    expect(await history(reader, id)).toEqual(before);
  });

  it("Vaults: Store model and external service credentials outside agent code.", async () => {
    const { beta, server } = reader;
    const secret = "s3cret-0123456789abcdef";
    const vault = await beta.vaults.create({ display_name: "keys" });
    await beta.vaults.credentials.create(vault.id, {
      auth: {
        type: "environment_variable",
        secret_name: "SERVICE_KEY",
        secret_value: secret,
        networking: { type: "unrestricted" },
      },
    });
    const { id } = await makeSession(reader, { session: { vault_ids: [vault.id] } });
    await reader.run(id, { shell: "env" });
    expect(JSON.stringify(await history(reader, id))).not.toContain(secret);
    expect(server.stderr()).not.toContain(secret);
    expect((await readFile(join(server.data, "catalog.db"))).includes(secret)).toBe(false);
  });

  it("Agent Harnesses: Choose the runtime adapter that should execute each managed session.", async () => {
    const { beta } = reader;
    const agent = await beta.agents.create({
      name: "chosen",
      model: "some-model",
      metadata: { harness: "scripted" },
    });
    const environment = await beta.environments.create({ name: "chosen" });
    const session = await beta.sessions.create({ agent: agent.id, environment_id: environment.id });
    expect(wordsOf(await reader.run(session.id, { say: "by the scripted agent" }))).toEqual([
      "by the scripted agent",
    ]);
    const info = (await (await reader.server.fetch(`/v1/sessions/${session.id}`)).json()) as object;
    expect(info).toMatchObject({ agent: "scripted" });
  });
});
