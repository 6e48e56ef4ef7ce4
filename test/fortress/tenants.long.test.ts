import { expect, it } from "vitest";
import { openAnthropic } from "../http/anthropic/anthropic-bench.ts";
import { openReceiver } from "../http/webhooks/webhook-receiver.ts";
import { describeFortress } from "./fortress-bench.ts";
import { BETA, type Call, KEYS, callerOf, made, serveTenants } from "./tenant-calls.ts";

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

    // Its requests for another tenant's things are refused, as if there were none.
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

    // Lists hold only the tenant's own entries, also with another tenant's page cursor.
    for (const path of ["/agents", "/environments", "/vaults", "/files", "/skills", "/sessions"]) {
      const { text } = await theirs("GET", `${path}?limit=100`);
      for (const id of Object.values(own)) expect(text, path).not.toContain(id);
    }
    const { body: files } = await theirs("GET", `/files?ids[]=${own.file}`);
    expect(files["data"]).toEqual([]);
    expect((await theirs("GET", `/files?scope_id=${own.session}`)).body["data"]).toEqual([]);

    // All of it is still there, and the other key does not reach it in another dialect.
    for (const path of [`/agents/${own.agent}`, `/vaults/${own.vault}`, `/sessions/${own.session}`])
      expect((await ours("GET", path)).status).toBe(200);
    const listed = await fetch(`${server.url}/v1/sessions`, {
      headers: { authorization: "Bearer sk-team-b" },
    });
    expect([listed.status, (await listed.text()).includes(own.session as string)]).toEqual([200, false]);
    for (const path of [
      `/v1/sessions/${own.session}`,
      `/v1/sessions/${own.session}/events`,
      `/ag-ui/scripted?threadId=${own.session}&offset=-1`,
      `/ndjson/chat/stream?conversation=${own.session}`,
      "/metrics",
      `//v1/sessions`,
    ]) {
      for (const header of ["authorization", "x-api-key"]) {
        const value = header === "x-api-key" ? "sk-team-b" : "Bearer sk-team-b";
        const { status } = await fetch(server.url + path, { headers: { [header]: value } });
        expect([path, [400, 401, 403, 404].includes(status)], `${status}`).toEqual([path, true]);
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

/** The app's own routes with an id in their path. Signed routes take no key and are refused as unsigned. */
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
