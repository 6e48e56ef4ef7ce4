import { chown, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { openAnthropic } from "../http/anthropic/anthropicBench.ts";
import { openReceiver } from "../http/anthropic/webhookReceiver.ts";
import { Workbench } from "../cli/workbench.ts";
import type { TestServer } from "../support/server.ts";
import { describeFortress, makeFolder, serveAs, type ServerUser } from "./fortressBench.ts";
import { missing, runInInternet } from "./internet.ts";

const BETA = "managed-agents-2026-04-01";
const KEYS = { "sk-team-a": "team-a", "sk-team-b": "team-b" };

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
  readonly text: string;
}

type Call = (method: string, path: string, body?: unknown) => Promise<Answer>;

async function serveTenants(user: ServerUser, args: string[] = []): Promise<TestServer> {
  const file = join(await makeFolder(user), "keys.json");
  await writeFile(file, JSON.stringify(KEYS), { mode: 0o600 });
  if (user.ids) await chown(file, user.ids.uid, user.ids.gid);
  return serveAs(user, { args: ["--keys", file, ...args] });
}

const callerOf =
  ({ url }: TestServer, key: string): Call =>
  async (method, path, body) => {
    const isForm = body instanceof FormData;
    const response = await fetch(`${url}/anthropic/v1${path}`, {
      method,
      headers: {
        "x-api-key": key,
        "anthropic-beta": BETA,
        ...(isForm ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    });
    const text = await response.text();
    return { status: response.status, text, body: toRecord(text) };
  };

function toRecord(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

const made = async (call: Call, path: string, body: unknown): Promise<string> => {
  const { status, body: answer, text } = await call("POST", path, body);
  if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
  return String(answer["id"]);
};

const PRIVATE = [
  "127.0.0.1",
  "127.1",
  "2130706433",
  "0x7f.0.0.1",
  "0177.0.0.1",
  "localhost",
  "LOCALHOST.",
  "a.localhost",
  "0.0.0.0",
  "10.0.0.5",
  "172.16.3.4",
  "192.168.1.1",
  "100.64.0.1",
  "169.254.169.254",
  "[::1]",
  "[::]",
  "[fe80::1]",
  "[fd00::1]",
  "[::ffff:127.0.0.1]",
  "[::ffff:a00:5]",
  "[64:ff9b::7f00:1]",
  "[2002:7f00:1::]",
];

describeFortress("what a tenant names", (user) => {
  it("is refused at once where it is an address of this machine or its network", async () => {
    const server = await serveTenants(user);
    const call = callerOf(server, "sk-team-a");
    const vault = await made(call, "/vaults", { display_name: "v" });
    const environment = await made(call, "/environments", { name: "open" });
    const agent = await made(call, "/agents", { name: "a", model: "scripted" });
    const session = await made(call, "/sessions", { agent, environment_id: environment });
    const refresh = { client_id: "c", refresh_token: "r", token_endpoint_auth: { type: "none" } };
    const good = "https://mcp.example.com/";
    const answers: string[] = [];
    for (const host of PRIVATE) {
      const url = `http://${host}:8080/x`;
      const limited = { type: "cloud", networking: { type: "limited", allowed_hosts: [`${host}:8080`] } };
      const server = { type: "url", name: "docs", url };
      const tools = [{ type: "mcp_toolset", mcp_server_name: "docs" }];
      const oauth = { type: "mcp_oauth", mcp_server_url: good, access_token: "t" };
      const overrides = { type: "agent_with_overrides", id: agent, mcp_servers: [server], tools };
      const repository = { type: "github_repository", url: `${url}.git` };
      for (const [path, body] of [
        ["/environments", { name: `e ${host}`, config: limited }],
        [`/environments/${environment}`, { config: limited }],
        ["/agents", { name: "a", model: "scripted", mcp_servers: [server], tools }],
        [`/agents/${agent}`, { mcp_servers: [server], tools }],
        ["/sessions", { agent: overrides, environment_id: environment }],
        [`/sessions/${session}`, { agent: { mcp_servers: [server], tools } }],
        ["/sessions", { agent, environment_id: environment, resources: [repository] }],
        [
          `/vaults/${vault}/credentials`,
          { auth: { type: "static_bearer", mcp_server_url: url, token: "t" } },
        ],
        [`/vaults/${vault}/credentials`, { auth: { ...oauth, mcp_server_url: url } }],
        [
          `/vaults/${vault}/credentials`,
          { auth: { ...oauth, refresh: { ...refresh, token_endpoint: url } } },
        ],
      ] as const) {
        const { status, text } = await call("POST", path, body);
        answers.push(
          `${host} ${path.replaceAll(/\w+_0\w+/g, "ID")} ${status} ${/which a workspace|allow list|expected/.test(text)}`,
        );
      }
    }
    expect(answers.filter((answer) => !answer.endsWith("400 true"))).toEqual([]);
  });

  it("is never a file, a folder or another way of git's to get at this machine", async () => {
    const server = await serveTenants(user);
    const call = callerOf(server, "sk-team-a");
    const environment = await made(call, "/environments", { name: "open" });
    const agent = await made(call, "/agents", { name: "a", model: "scripted" });
    for (const url of [
      `file://${server.data}`,
      "ssh://git@10.0.0.5/a.git",
      "git://10.0.0.5/a.git",
      "ext::sh -c true",
      "http://user:word@example.com/a.git",
    ]) {
      const resources = [{ type: "github_repository", url }];
      const { status } = await call("POST", "/sessions", { agent, environment_id: environment, resources });
      expect([url, status]).toEqual([url, 400]);
    }
  });

  it("chooses neither the sandbox nor the program, nor anything else of the host", async () => {
    const server = await serveTenants(user);
    const call = callerOf(server, "sk-team-a");
    const environment_id = await made(call, "/environments", { name: "open" });
    const host = {
      sandbox: "local",
      directory: "/",
      network: "full",
      command: ["sh"],
      env: { A: "b" },
      secrets: { A: "env:HOME" },
      fork: { session: "x" },
    };
    const agent = await made(call, "/agents", { name: "a", model: "scripted", ...host });
    const id = await made(call, "/sessions", { agent, environment_id, ...host });
    expect(await server.client.sessions.get(id)).toMatchObject({ sandbox: "bwrap", directory: null });
    const metadata = { harness: "acp" };
    const acp = await made(call, "/agents", {
      name: "a",
      model: "sh",
      metadata,
      command: ["sh", "-c", "id"],
    });
    const refused = await call("POST", "/sessions", { agent: acp, environment_id });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("needs the command")]);
  });
});

const isPublic = (line: string): boolean => line.startsWith("93.184.2.2 ");

interface World {
  readonly [what: string]: Record<string, Seen> & Seen;
}
interface Seen {
  readonly answered: unknown;
  readonly arrived: readonly string[];
}

describe.skipIf(missing !== undefined)(
  `the names of a tenant${missing ? ` (skipped: ${missing})` : ""}`,
  () => {
    let world: World;
    beforeAll(async () => {
      world = (await runInInternet("tenant-world.mjs")) as World;
      expect(world["failure"]).toBeUndefined();
    }, 300_000);

    const WAYS = ["mcp", "clone", "inside", "validate", "refresh"] as const;
    const KINDS = ["private", "loopback", "metadata", "own"] as const;
    const seen = (what: string, way: string): Seen => (world[what] as Record<string, Seen>)[way] as Seen;

    it.each(WAYS)("lead to the internet: %s", (way) => {
      const { answered, arrived } = seen("public", way);
      expect(arrived.length).toBeGreaterThan(0);
      expect(arrived.every(isPublic)).toBe(true);
      const proof = {
        mcp: "a page of 93.184.2.2",
        clone: "over http",
        inside: "agent.tool_result",
        validate: '"valid"',
        refresh: '"succeeded"',
      };
      expect(JSON.stringify(answered)).toContain(proof[way]);
    });

    it.each(KINDS.flatMap((kind) => WAYS.map((way) => [kind, way] as const)))(
      "lead nowhere where they resolve to a %s address: %s",
      (kind, way) => {
        const { answered, arrived } = seen(kind, way);
        expect(arrived.filter((line) => !isPublic(line))).toEqual([]);
        const text = JSON.stringify(answered);
        expect(text).not.toMatch(/a page of|over http|"valid"|"succeeded"/);
      },
    );

    it("tell a tenant nothing of what they resolve to", () => {
      const cloned = KINDS.map((kind) => JSON.stringify(seen(kind, "clone").answered));
      for (const text of cloned) expect(text).not.toMatch(/10\.0\.0\.5|127\.0\.0\.1|169\.254|93\.184\.1\.1/);
      const validated = KINDS.map(
        (kind) => (seen(kind, "validate").answered as { mcp_probe: unknown }).mcp_probe,
      );
      for (const probe of validated) expect(probe).toEqual({ method: "initialize", http_response: null });
    });

    it("lead to an MCP server with the token of the tenant's own vault", () => {
      const { answered, arrived } = world["vault"] as Seen;
      expect(arrived.every(isPublic)).toBe(true);
      expect(String(answered)).toContain("a page of 93.184.2.2");
    });

    it("lead nowhere else by a redirect: of a clone, of an MCP server", () => {
      for (const { answered, arrived } of [world["redirected"], world["redirectedMcp"]] as Seen[]) {
        expect(arrived.length).toBeGreaterThan(0);
        expect(arrived.filter((line) => !isPublic(line))).toEqual([]);
        expect(String(answered)).not.toMatch(/over http|a page of/);
      }
    });

    it("bind the server's owner to nothing", () => {
      const { answered, arrived } = world["owner"] as Seen;
      expect(arrived).toContain("10.0.0.5 /project.git/info/refs");
      expect(String(answered)).toContain("a page of 10.0.0.5");
    });
  },
);

const refusedWith = async (args: string[], keys: object = KEYS): Promise<string> => {
  const bench = new Workbench();
  try {
    const file = join(bench.work, "keys.json");
    await writeFile(file, JSON.stringify(keys), { mode: 0o600 });
    const { code, out, err } = await bench.run(["serve", "--port", "0", "--keys", file, ...args]);
    expect([code, out]).toEqual([2, ""]);
    return err;
  } finally {
    await bench.close();
  }
};

describe("sluice serve --keys", () => {
  it("is refused with --no-token, also with --insecure", async () => {
    expect(await refusedWith(["--no-token"])).toContain("Leave --no-token out");
    expect(await refusedWith(["--no-token", "--insecure"])).toContain("Leave --no-token out");
  });

  it("is refused with the local sandbox", async () => {
    const bench = new Workbench();
    try {
      const file = join(bench.work, "keys.json");
      await writeFile(file, JSON.stringify(KEYS), { mode: 0o600 });
      // By name where it can be named, else by a machine that has no other.
      const isNamed = (await bench.run(["serve", "--help"])).out.includes("--sandbox");
      const args = ["serve", "--port", "0", "--keys", file, ...(isNamed ? ["--sandbox", "local"] : [])];
      const only = join(bench.work, "bin");
      await mkdir(only);
      await symlink(process.execPath, join(only, "node"));
      const PATH = isNamed ? process.env["PATH"] : only;
      const { code, out, err } = await bench.run(args, { env: { PATH } });
      expect([code, out, err]).toEqual([2, "", expect.stringContaining("local sandbox")]);
    } finally {
      await bench.close();
    }
  });

  it("is refused where a workspace would be the server's owner or the server itself", async () => {
    expect(await refusedWith([], { "sk-a": "default" })).toContain("the server's own");
    expect(await refusedWith([], { "sk-a": "sluice" })).toContain("the server's own");
    expect(await refusedWith(["--token", "sk-a"], { "sk-a": "team" })).toContain("the server's own token");
  });
});

describeFortress("a tenant's webhooks", (user) => {
  it("name its workspace, from the making of a session to its deletion", async () => {
    const receiver = await openReceiver();
    try {
      const server = await serveTenants(user, ["--webhook", receiver.url]);
      const workspaces = new Map<string, Set<unknown>>();
      for (const [key, name] of [...Object.entries(KEYS), [server.token, "default"] as const]) {
        const call = callerOf(server, key);
        const environment_id = await made(call, "/environments", { name: "e" });
        const agent = await made(call, "/agents", { name: "a", model: "scripted" });
        const id = await made(call, "/sessions", { agent, environment_id });
        const created = await receiver.until((one) => one.session === id && one.type === "session.created");
        expect((await call("DELETE", `/sessions/${id}`)).status).toBe(200);
        const deleted = await receiver.until((one) => one.session === id && one.type === "session.deleted");
        const named = [created, deleted].map(
          ({ body }) => (JSON.parse(body) as { data: Record<string, unknown> }).data,
        );
        workspaces.set(name, new Set(named.map(({ workspace_id }) => workspace_id)));
      }
      expect([...workspaces]).toEqual([
        ["team-a", new Set(["wrkspc_team-a"])],
        ["team-b", new Set(["wrkspc_team-b"])],
        ["default", new Set(["wrkspc_default"])],
      ]);
    } finally {
      await receiver.close();
    }
  });
});

describeFortress("a tenant", (user) => {
  it("sees nothing of another's, by any route and any id", async () => {
    const server = await serveTenants(user);
    const [ours, theirs] = [callerOf(server, "sk-team-a"), callerOf(server, "sk-team-b")];
    const own = await makeEverything(ours);
    const nobody = Object.fromEntries(Object.entries(own).map(([name, id]) => [name, toUnknown(id)]));
    const other = await makeEverything(theirs);

    const mounted = await mountedRoutes();
    const known = new Set(
      ROUTES.map(([method, path]) => `${method} ${path.replace(/\?.*/, "").replaceAll(/\{\w+\}/g, ":")}`),
    );
    expect(mounted.filter((route) => !known.has(route))).toEqual([]);

    const differing: string[] = [];
    for (const [method, path, body] of ROUTES) {
      const got = await theirs(method, ...fill(path, body, { ...other, ...own }));
      const wanted = await theirs(method, ...fill(path, body, { ...other, ...nobody }));
      const one = `${got.status} ${withoutIds(got.text)}`;
      const two = `${wanted.status} ${withoutIds(wanted.text)}`;
      const isHidden = [400, 404].includes(got.status) && got.body["type"] === "error";
      if (!isHidden || one !== two) differing.push(`${method} ${path}: ${one} instead of ${two}`);
    }
    expect(differing).toEqual([]);

    // What it makes of another's things is refused, as if they were not there.
    for (const [path, body] of [
      ["/sessions", { agent: own.agent, environment_id: other.environment }],
      ["/sessions", { agent: other.agent, environment_id: own.environment }],
      ["/sessions", { agent: other.agent, environment_id: other.environment, vault_ids: [own.vault] }],
      [
        "/sessions",
        {
          agent: other.agent,
          environment_id: other.environment,
          resources: [{ type: "file", file_id: own.file }],
        },
      ],
      [`/sessions/${other.session}`, { vault_ids: [own.vault] }],
      [`/sessions/${other.session}/resources`, { type: "file", file_id: own.file }],
      ["/agents", { name: "a", model: "scripted", skills: [{ type: "custom", skill_id: own.skill }] }],
      [`/sessions/${other.session}/events`, { events: [image(own.file)] }],
    ] as const) {
      const { status, text } = await theirs("POST", path, body);
      expect([path, status >= 400 && status < 500, text]).toEqual([path, true, text]);
    }

    // Lists hold what is one's own, also by a page that another was given.
    for (const path of ["/agents", "/environments", "/vaults", "/files", "/skills", "/sessions"]) {
      const { text } = await theirs("GET", `${path}?limit=100`);
      for (const id of Object.values(own)) expect(text, path).not.toContain(id);
    }
    const { body: files } = await theirs("GET", `/files?ids[]=${own.file}`);
    expect(files["data"]).toEqual([]);
    expect((await theirs("GET", `/files?scope_id=${own.session}`)).body["data"]).toEqual([]);

    // All of it is still there, and nobody else's key opens another dialect.
    for (const path of [`/agents/${own.agent}`, `/vaults/${own.vault}`, `/sessions/${own.session}`])
      expect((await ours("GET", path)).status).toBe(200);
    for (const path of [
      "/v1/sessions",
      `/v1/sessions/${own.session}`,
      `/v1/sessions/${own.session}/events`,
      `/ag-ui/scripted?threadId=${own.session}`,
      `/ndjson/chat/stream?conversation=${own.session}`,
      "/openapi.json",
      "/metrics",
      `/anthropic/../v1/sessions`,
      `/anthropic/%2e%2e/v1/sessions`,
      `//v1/sessions`,
    ]) {
      for (const header of ["authorization", "x-api-key"]) {
        const value = header === "x-api-key" ? "sk-team-b" : "Bearer sk-team-b";
        const { status } = await fetch(server.url + path, { headers: { [header]: value } });
        expect([path, [401, 404].includes(status)], `${status}`).toEqual([path, true]);
      }
    }
  });

  it("is not told the answer that another's same request was given", async () => {
    const server = await serveTenants(user);
    const body = { name: "same words", model: "scripted" };
    const send = async (key: string): Promise<string> => {
      const response = await fetch(`${server.url}/anthropic/v1/agents`, {
        method: "POST",
        headers: {
          "x-api-key": key,
          "anthropic-beta": BETA,
          "content-type": "application/json",
          "x-stainless-retry-count": "1",
        },
        body: JSON.stringify(body),
      });
      return ((await response.json()) as { id: string }).id;
    };
    const first = await send("sk-team-a");
    expect(await send("sk-team-a")).toBe(first);
    expect(await send("sk-team-b")).not.toBe(first);
    expect(await send(server.token)).not.toBe(first);
  });
});

type Ids = Record<
  | "agent"
  | "environment"
  | "vault"
  | "credential"
  | "file"
  | "skill"
  | "skillVersion"
  | "session"
  | "resource"
  | "thread"
  | "work",
  string
>;

async function makeEverything(call: Call): Promise<Ids> {
  const agent = await made(call, "/agents", { name: "a", model: "scripted" });
  const environment = await made(call, "/environments", { name: "e", config: { type: "self_hosted" } });
  const vault = await made(call, "/vaults", { display_name: "v" });
  const auth = { type: "static_bearer", mcp_server_url: "https://mcp.example.com/", token: "secret" };
  const credential = await made(call, `/vaults/${vault}/credentials`, { auth });
  const form = new FormData();
  form.append("file", new File(["text"], "a.txt", { type: "text/plain" }));
  const file = await made(call, "/files", form);
  const { body: skill } = await call("POST", "/skills", skillForm());
  const session = await made(call, "/sessions", {
    agent,
    environment_id: environment,
    resources: [{ type: "file", file_id: file }],
  });
  const { body: resources } = await call("GET", `/sessions/${session}/resources`);
  const [resource] = resources["data"] as { id: string }[];
  const { body: threads } = await call("GET", `/sessions/${session}/threads`);
  const [thread] = threads["data"] as { id: string }[];
  const { body: work } = await call("GET", `/environments/${environment}/work/poll`);
  return {
    agent,
    environment,
    vault,
    credential,
    file,
    skill: String(skill["id"]),
    skillVersion: String(skill["latest_version_id"] ?? skill["latest_version"]),
    session,
    resource: resource?.id ?? "",
    thread: thread?.id ?? "",
    work: String(work["id"]),
  };
}

function skillForm(): FormData {
  const form = new FormData();
  const text = "---\nname: greeting\ndescription: Says hello.\n---\nSay hello.\n";
  form.append("display_title", "greeting");
  form.append("files[]", new File([text], "greeting/SKILL.md", { type: "text/markdown" }));
  return form;
}

const image = (file_id: string): object => ({
  type: "user.message",
  content: [{ type: "image", source: { type: "file", file_id } }],
});

const MESSAGE = { events: [{ type: "user.message", content: [{ type: "text", text: "hi" }] }] };

/** Every route of the dialect that names something. */
const ROUTES: readonly (readonly [method: string, path: string, body?: unknown])[] = [
  ["GET", "/agents/{agent}"],
  ["GET", "/agents/{agent}?version=1"],
  ["POST", "/agents/{agent}", { name: "mine" }],
  ["POST", "/agents/{agent}/archive"],
  ["GET", "/agents/{agent}/versions"],
  ["GET", "/environments/{environment}"],
  ["POST", "/environments/{environment}", { name: "mine" }],
  ["POST", "/environments/{environment}/archive"],
  ["DELETE", "/environments/{environment}"],
  ["GET", "/environments/{environment}/work/poll"],
  ["GET", "/environments/{environment}/work/stats"],
  ["GET", "/environments/{environment}/work"],
  ["GET", "/environments/{environment}/work/{work}"],
  ["POST", "/environments/{environment}/work/{work}", { metadata: { a: "b" } }],
  ["POST", "/environments/{environment}/work/{work}/ack"],
  ["POST", "/environments/{environment}/work/{work}/heartbeat"],
  ["POST", "/environments/{environment}/work/{work}/stop", { force: true }],
  ["GET", "/vaults/{vault}"],
  ["POST", "/vaults/{vault}", { display_name: "mine" }],
  ["POST", "/vaults/{vault}/archive"],
  ["DELETE", "/vaults/{vault}"],
  ["GET", "/vaults/{vault}/credentials"],
  [
    "POST",
    "/vaults/{vault}/credentials",
    { auth: { type: "static_bearer", mcp_server_url: "https://a.example/", token: "t" } },
  ],
  ["GET", "/vaults/{vault}/credentials/{credential}"],
  ["POST", "/vaults/{vault}/credentials/{credential}", { auth: { type: "static_bearer", token: "t" } }],
  ["POST", "/vaults/{vault}/credentials/{credential}/archive"],
  ["POST", "/vaults/{vault}/credentials/{credential}/mcp_oauth_validate"],
  ["DELETE", "/vaults/{vault}/credentials/{credential}"],
  ["GET", "/files/{file}"],
  ["GET", "/files/{file}/content"],
  ["GET", "/files?after_id={file}"],
  ["DELETE", "/files/{file}"],
  ["GET", "/skills/{skill}"],
  ["DELETE", "/skills/{skill}"],
  ["GET", "/skills/{skill}/versions"],
  ["POST", "/skills/{skill}/versions", "a form with the skill's files"],
  ["GET", "/skills/{skill}/versions/{skillVersion}"],
  ["GET", "/skills/{skill}/versions/{skillVersion}/content"],
  ["DELETE", "/skills/{skill}/versions/{skillVersion}"],
  ["GET", "/sessions/{session}"],
  ["POST", "/sessions/{session}", { title: "mine" }],
  ["POST", "/sessions/{session}/archive"],
  ["DELETE", "/sessions/{session}"],
  ["GET", "/sessions/{session}/events"],
  ["GET", "/sessions/{session}/events/stream"],
  ["POST", "/sessions/{session}/events", MESSAGE],
  ["GET", "/sessions/{session}/threads"],
  ["GET", "/sessions/{session}/threads/{thread}"],
  ["POST", "/sessions/{session}/threads/{thread}/archive"],
  ["GET", "/sessions/{session}/threads/{thread}/events"],
  ["GET", "/sessions/{session}/threads/{thread}/stream"],
  ["GET", "/sessions/{session}/resources"],
  ["POST", "/sessions/{session}/resources", { type: "file", file_id: "{file}" }],
  ["GET", "/sessions/{session}/resources/{resource}"],
  ["POST", "/sessions/{session}/resources/{resource}", { authorization_token: "t" }],
  ["DELETE", "/sessions/{session}/resources/{resource}"],
  ["POST", "/sessions/{session}/callbacks/register"],
];

/** Those that name something, from the app itself; what comes signed has no key, and is refused as unsigned. */
async function mountedRoutes(): Promise<string[]> {
  const bench = await openAnthropic();
  try {
    const routes = bench.app.routes
      .filter(
        ({ method, path }) => method !== "ALL" && path.startsWith("/anthropic/v1/") && path.includes(":"),
      )
      .map(({ method, path }) => `${method} ${path.slice("/anthropic/v1".length).replaceAll(/:\w+/g, ":")}`);
    return [...new Set(routes)].filter((route) => route !== "POST /sessions/:/callbacks");
  } finally {
    await bench.close();
  }
}

function fill(path: string, body: unknown, ids: Record<string, string>): [string, unknown] {
  if (typeof body === "string") return [fill(path, undefined, ids)[0], skillForm()];
  const put = (text: string): string =>
    text.replaceAll(/\{(\w+)\}/g, (all, name: string) => ids[name] ?? all);
  return [put(path), body === undefined ? undefined : (JSON.parse(put(JSON.stringify(body))) as unknown)];
}

/** An id of the same form that nothing has. */
function toUnknown(id: string): string {
  return `${id.slice(0, -4)}zzzz`;
}

function withoutIds(text: string): string {
  return text.replaceAll(/\b(?:[a-z]+_0\w+|req_\w+)\b/g, "ID");
}
