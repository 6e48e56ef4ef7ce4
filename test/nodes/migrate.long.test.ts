import Anthropic from "@anthropic-ai/sdk";
import { HttpAgent } from "@ag-ui/client";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createCatalog } from "../../src/catalog/index.ts";
import { createPostgresCatalog } from "../../src/catalog/postgres/catalog.ts";
import { createSqliteLog } from "../../src/log/index.ts";
import type { EventLog, StoredEvent } from "../../src/log/port.ts";
import { createPostgresLog } from "../../src/log/postgres/open.ts";
import { makeSession, message, watch } from "../http/anthropic/session-bench.ts";
import { script } from "../support/engine.ts";
import { assistantTexts } from "../support/laws.ts";
import { requirePostgres, startPostgres, type TestPostgres } from "../support/postgres.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { create, eventsOf, KEY, readTurn, send } from "./node-bench.ts";

const { bin, reason } = requirePostgres();
const BIN = resolve(import.meta.dirname, "../../bin/sluice");
const SECRET = "a-bearer-of-the-vault";
const IDS = ["plain", "large", "thread"];

describe.skipIf(bin === undefined)(reason ?? "sluice migrate", { timeout: 900_000 }, () => {
  let postgres: TestPostgres;
  let server: TestServer;
  let managed: string;
  let file: string;
  let credential: string;
  let token: string;
  beforeAll(async () => {
    postgres = await startPostgres(bin ?? "");
    server = await startServer();
    await create(server, "plain");
    await send(server, "plain", script({ say: "hello" }, { shell: "echo kept > file.txt" }), "k1");
    await readTurn(server, "plain");
    await create(server, "large");
    const texts = Array.from({ length: 12 }, (_, n) => ({ say: `${n} ${"é".repeat(40_000 + n)}` }));
    await send(server, "large", script(...texts));
    await readTurn(server, "large");
    await create(server, "gone");
    await server.client.sessions.delete("gone");
    const agent = new HttpAgent({
      url: `${server.url}/ag-ui/scripted`,
      threadId: "thread",
      headers: { authorization: `Bearer ${server.token}` },
    });
    agent.addMessage({ id: "u1", role: "user", content: script({ say: "over AG-UI" }) });
    await agent.runAgent();
    const { beta } = new Anthropic({ baseURL: `${server.url}/anthropic`, apiKey: server.token });
    ({ id: managed } = await makeSession({ beta }));
    await watch({ beta }, managed, () =>
      beta.sessions.events.send(managed, { events: [message(script({ say: "managed" }))] }),
    );
    ({ id: file } = await beta.files.upload({ file: new File(["x".repeat(1_500_000)], "large.txt") }));
    const vault = await beta.vaults.create({ display_name: "vault" });
    const auth = {
      type: "static_bearer",
      token: SECRET,
      mcp_server_url: "https://mcp.example.com/",
    } as const;
    ({ id: credential } = await beta.vaults.credentials.create(vault.id, { auth }));
    ({ token } = await server.client.tokens.create({ scope: "read" }));
  }, 600_000);
  afterAll(async () => {
    await server?.stop();
    await postgres?.stop();
    if (server) rmSync(server.data, { recursive: true, force: true });
  }, 60_000);

  it("refuses a folder in use, and databases that cannot take it, and changes nothing", async () => {
    const url = await postgres.createDatabase();
    const refused = async (to: string, from = server.data): Promise<string> => {
      const { code, output } = await migrate(to, from);
      expect(code, output).not.toBe(0);
      return output;
    };
    expect(await refused(url)).toContain(`The server at ${server.url} uses the data folder`);
    await server.stop();
    const empty = mkdtempSync(join(tmpdir(), "sluice-empty-"));
    expect(await refused(url, empty)).toContain("There is no log in");
    expect(readdirSync(empty)).toEqual([]);
    rmSync(empty, { recursive: true });
    expect(await refused("http://nowhere")).toContain("A database URL looks like");
    expect(await refused("postgres://a@127.0.0.1:1/b")).toContain("cannot be reached");
    expect(await refused(postgres.urlOf("no_such"))).toContain('database "no_such" does not exist');
    const name = nameOf(url);
    await postgres.admin().unsafe(`CREATE ROLE weak LOGIN`);
    expect(await refused(postgres.urlOf(name, "weak"))).toContain("GRANT CREATE ON DATABASE");
    await postgres.admin().unsafe(`CREATE ROLE reader LOGIN SUPERUSER`);
    await postgres.admin().unsafe(`ALTER ROLE reader SET default_transaction_read_only = on`);
    expect(await refused(postgres.urlOf(name, "reader"))).toContain("it can only be read");
    const newer = await postgres.createDatabase();
    await postgres.admin(nameOf(newer)).unsafe(`CREATE SCHEMA sluice;
      CREATE TABLE sluice.meta (part text PRIMARY KEY, version int NOT NULL, readable_by int NOT NULL);
      INSERT INTO sluice.meta VALUES ('log', 99, 99)`);
    expect(await refused(newer)).toContain("Upgrade this sluice");

    const other = await startServer({ env: { SLUICE_DATABASE: url, SLUICE_SEAL_KEY: KEY } });
    expect(await refused(url)).toContain("works on this database");
    await create(other, "theirs");
    await other.stop();
    expect(await refused(url)).toContain("has sessions or resources of its own");
    rmSync(other.data, { recursive: true, force: true });
  });

  it("moves everything, killed at any point, and a node goes on with it", async () => {
    await server.start();
    const toldBy = async (at: TestServer): Promise<string[]> => {
      const { beta } = new Anthropic({ baseURL: `${at.url}/anthropic`, apiKey: at.token });
      const told: string[] = [];
      for await (const event of beta.sessions.events.list(managed)) told.push(JSON.stringify(event));
      told.push(await (await at.fetch("/v1/usage?by=session")).text());
      return told;
    };
    const before = await toldBy(server);
    const listed = (await server.client.sessions.list({ limit: 100 })).sessions.map(
      ({ sessionId }) => sessionId,
    );
    await server.stop();
    const ids = [...IDS, managed];
    const source = createSqliteLog({ folder: server.data });
    const stored = await readAll(source, ids);
    await source.close();
    const files = filesOf(server.data);
    const url = await postgres.createDatabase();

    let kills = 0;
    let wasTried = false;
    for (let limit = 4_096; ; limit *= 2) {
      const wire = await stallingWire(postgres.port, limit);
      const { code, output } = await migrate(
        url.replace(String(postgres.port), String(wire.port)),
        server.data,
        wire,
      );
      await wire.close();
      if (code === 0) {
        expect(output).toContain("all events are equal");
        expect(output).toMatch(/4 sessions with \d+ events and \d+ large texts/);
        break;
      }
      expect(output).toBe("killed");
      kills += 1;
      if (wasTried) continue;
      const { admin } = postgres;
      const [moves] = await admin(nameOf(url)).unsafe(
        "SELECT to_regclass('sluice.moves') IS NOT NULL AS found",
      );
      const rows =
        moves?.["found"] === true ? await admin(nameOf(url)).unsafe("SELECT 1 FROM sluice.moves") : [];
      if (rows.length === 0) continue;
      wasTried = true;
      // No node may work on a part of the sessions.
      const data = mkdtempSync(join(tmpdir(), "sluice-early-"));
      const early = await startServer({ data, env: { SLUICE_DATABASE: url, SLUICE_SEAL_KEY: KEY } }).catch(
        (error: Error) => error.message,
      );
      rmSync(data, { recursive: true, force: true });
      expect(early).toContain("is not finished");
    }
    expect(kills).toBeGreaterThan(3);
    expect((await migrate(url, server.data)).output).toContain("Nothing was left to do");
    expect(filesOf(server.data)).toEqual(files);

    const log = await createPostgresLog({ url });
    expect(await readAll(log, ids)).toEqual(stored);
    await log.close();
    const keys = [Buffer.from(KEY, "hex")];
    const [old, now] = [createCatalog({ folder: server.data }), await createPostgresCatalog({ url, keys })];
    const secret = await now.openSecret("default", "credential", credential);
    expect(secret).toContain(SECRET);
    expect(secret).toBe(await old.openSecret("default", "credential", credential));
    await Promise.all([old.close(), now.close()]);

    const node = await startServer({
      data: server.data,
      env: { SLUICE_DATABASE: url, SLUICE_SEAL_KEY: KEY },
    });
    try {
      expect(await toldBy(node)).toEqual(before);
      const again = (await node.client.sessions.list({ limit: 100 })).sessions;
      expect(again.map(({ sessionId }) => sessionId)).toEqual(listed);
      const { beta } = new Anthropic({ baseURL: `${node.url}/anthropic`, apiKey: node.token });
      expect((await (await beta.files.download(file)).text()).length).toBe(1_500_000);
      const reader = { headers: { authorization: `Bearer ${token}` } };
      expect((await fetch(`${node.url}/v1/sessions/plain`, reader)).status).toBe(200);
      // The repeat of a request is recognised, and the workspace is still there.
      const { length } = await eventsOf(node, "plain");
      await send(node, "plain", script({ say: "hello" }, { shell: "echo kept > file.txt" }), "k1");
      expect(await eventsOf(node, "plain")).toHaveLength(length);
      expect(await (await node.fetch("/v1/fs/file?session=plain&path=file.txt")).text()).toBe("kept\n");
      for (const id of IDS) {
        const after = (await eventsOf(node, id)).length;
        await send(node, id, script({ say: "again" }));
        expect(assistantTexts(await readTurn(node, id, after))).toEqual(["again"]);
      }
      const seen = await watch({ beta }, managed, () =>
        beta.sessions.events.send(managed, { events: [message(script({ say: "managed again" }))] }),
      );
      expect(JSON.stringify(seen)).toContain("managed again");
      await create(node, "new");
    } finally {
      for (const id of [...IDS, managed, "new"]) await node.client.sessions.delete(id).catch(() => {});
      await node.stop();
    }
    // The folder belongs to the database now.
    expect((await migrate(url, server.data)).output).toContain("is in a database");
  });
});

/** All events of the sessions as they are stored, with their native lines. */
async function readAll(log: EventLog, ids: readonly string[]): Promise<StoredEvent[][]> {
  const all: StoredEvent[][] = [];
  for (const id of ids) {
    const events: StoredEvent[] = [];
    for (let more = [1]; more.length > 0;) {
      const page = await log.read(id, { after: events.length, limit: 500, raw: true });
      events.push(...page);
      more = page.map(({ sequence }) => sequence);
    }
    all.push(events);
  }
  return all;
}

function nameOf(url: string): string {
  return new URL(url).pathname.slice(1);
}

/** Runs the command, up to its end or until the wire stalls: then with kill -9. */
async function migrate(
  database: string,
  data: string,
  wire?: StallingWire,
): Promise<{ code: number | null; output: string }> {
  const env = { ...process.env, SLUICE_DATABASE: database, SLUICE_SEAL_KEY: KEY };
  const child = spawn(BIN, ["migrate", "sqlite-to-postgres", "--data", data], {
    stdio: ["ignore", "pipe", "pipe"],
    env,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  wire?.events.once("stalled", () => child.kill("SIGKILL"));
  const [code] = (await once(child, "close")) as [number | null];
  return child.signalCode === "SIGKILL" ? { code: null, output: "killed" } : { code, output };
}

interface StallingWire {
  readonly port: number;
  readonly events: EventEmitter;
  close(): Promise<void>;
}

/** A connection to the database that transmits nothing more after some bytes. */
async function stallingWire(to: number, limit: number): Promise<StallingWire> {
  const events = new EventEmitter();
  const sockets = new Set<Socket>();
  let sent = 0;
  const wire = createServer((client) => {
    const database = connect(to, "127.0.0.1");
    for (const socket of [client, database]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => [client, database].forEach((each) => each.destroy()));
    }
    database.pipe(client);
    client.on("data", (chunk) => {
      sent += chunk.length;
      if (sent > limit) events.emit("stalled");
      else database.write(chunk);
    });
  }).listen(0, "127.0.0.1");
  await once(wire, "listening");
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    wire.close();
    await once(wire, "close");
  };
  return { port: (wire.address() as { port: number }).port, events, close };
}

/** The digests of the files with data. */
function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => /^(?:(?:log|catalog)\.(?:db|key)$|token|blobs\/|files\/)/.test(relative(folder, path)))
    .map(
      (path) => `${relative(folder, path)} ${createHash("sha256").update(readFileSync(path)).digest("hex")}`,
    )
    .toSorted();
}
