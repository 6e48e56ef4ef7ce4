import { deepText } from "./mutations.ts";

const MESSAGE = { type: "user.message", content: [{ type: "text", text: "hi" }] };
const TOOLS = [
  { type: "agent_toolset_20260401", configs: [{ name: "bash", enabled: true }] },
  {
    type: "custom",
    name: "weather",
    description: "d",
    input_schema: { type: "object", properties: { a: {} } },
  },
  { type: "mcp_toolset", mcp_server_name: "docs" },
];

/** Valid bodies of every dialect; each is tried at its own routes and at others'. */
export const BODIES: readonly unknown[] = [
  {
    agent: "scripted",
    title: "t",
    metadata: { a: { b: [1] } },
    mcp: {},
    env: { A: "b" },
    network: { allow: ["a.example"] },
  },
  {
    agent: "scripted",
    tools: { rules: { "*": "ask" }, custom: [{ name: "a", description: "b", inputSchema: {} }] },
  },
  {
    agent: "scripted",
    limits: { memoryBytes: 1 },
    retries: { tries: 1 },
    skills: [{ name: "a", description: "b", content: "c" }],
  },
  { message: "hi", attachments: [{ path: "a.png", mime: "image/png", filename: "a" }], delivery: "queue" },
  { reply: "once", message: "m" },
  { answers: [["a"]] },
  { output: "o", content: [{ type: "text", text: "t" }], isError: false },
  { command: "true", cwd: ".", env: { A: "b" } },
  { comment: "c" },
  { checkpoint: "chk_1" },
  { path: "a" },
  { from: "a", to: "b", overwrite: true },
  {
    name: "a",
    model: "scripted",
    tools: TOOLS,
    mcp_servers: [{ type: "url", name: "docs", url: "https://a.example" }],
    metadata: { a: "b" },
  },
  {
    name: "e",
    config: {
      type: "cloud",
      networking: { type: "limited", allowed_hosts: ["a.example"] },
      packages: { npm: ["a"] },
    },
  },
  { display_name: "v", metadata: { a: "b" } },
  { auth: { type: "static_bearer", mcp_server_url: "https://a.example", token: "t" } },
  {
    auth: {
      type: "environment_variable",
      secret_name: "A",
      secret_value: "v",
      networking: { type: "unrestricted" },
    },
  },
  {
    agent: "agent_x",
    environment_id: "env_x",
    resources: [{ type: "file", file_id: "f" }],
    initial_events: [MESSAGE],
  },
  {
    events: [
      MESSAGE,
      { type: "user.interrupt" },
      { type: "user.tool_confirmation", tool_use_id: "x", result: "allow" },
    ],
  },
  {
    events: [
      {
        type: "user.message",
        content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } }],
      },
    ],
  },
  {
    threadId: "thread",
    runId: "run",
    state: { a: { b: 1 } },
    messages: [{ id: "m", role: "user", content: "hi" }],
    tools: [{ name: "t", parameters: {} }],
    context: [],
    forwardedProps: {},
  },
  {
    threadId: "thread",
    runId: "run",
    messages: [],
    resume: [{ interruptId: "i", status: "resolved", payload: { a: 1 } }],
  },
  {
    prompt: "p",
    messages: [{ role: "user", content: "c" }],
    conversation: "talk",
    agent: "scripted",
    metadata: {},
  },
  { title: "t", agent: { tools: TOOLS }, vault_ids: [] },
  { force: true, metadata: {} },
];

export const HUGE: readonly string[] = [
  deepText(10_000),
  deepText(100_000, ["[", "]"]),
  "[".repeat(1_000_000),
  '{"a":'.repeat(1_000_000),
  `{"metadata":${deepText(10_000)}}`,
  `[${"0,".repeat(3_000_000)}0]`,
  `{"messages":[${"0,".repeat(400_000)}0],"events":[${"{},".repeat(90_000)}{}]}`,
  `{${Array.from({ length: 100_000 }, (_, n) => `"k${n}":1`).join(",")}}`,
  `{"a":${"9".repeat(1_000_000)}}`,
  `{"message":"${"\\u0000".repeat(100_000)}"}`,
  "",
  " ",
  "null",
  "[]",
  "1e999",
  '"\\ud800"',
  '{"message":"a","message":"b","__proto__":{"message":"c"}}',
  '{"message":"a"}{"message":"b"}',
  "\ufeff{}",
];

export const IDS = [
  "known",
  "unknown",
  "__proto__",
  "constructor",
  "toString",
  "%00",
  "%ff",
  "a%2Fb",
  "..",
  "%2e%2e",
  "%F0%9F%98%80",
  "x".repeat(3_000),
  "%ED%A0%80",
  "-1",
  "1e9",
  "%",
];

export const QUERIES = [
  "",
  "?limit=1",
  "?limit=-1",
  "?limit=1e9",
  "?after=0&offset=1",
  "?after=99999999999999999999",
  "?__proto__=1",
  "?constructor=a&constructor=b",
  "?toString[]=1",
  "?page=page_e30",
  "?page=%ff",
  "?cursor=x",
  "?threadId=thread&runId=run",
  "?threadId=__proto__",
  "?runId=%00",
  "?session=known&path=a",
  "?session=known&path=%00",
  "?session=__proto__&path=/",
  "?path=a",
  "?types=a,b&types=c",
  "?conversation=talk&turn=x",
  "?created_at[gt]=x",
  "?ids[]=a&ids[]=b",
  "?offset=now",
  "?offset=-1",
  "?version=1",
  "?a=%E0%A4%A",
];

export const HEADERS: readonly Record<string, string>[] = [
  { "content-type": "application/json" },
  {},
  { "content-type": "text/plain" },
  { "content-type": "multipart/form-data; boundary=x" },
  { "content-type": "multipart/form-data" },
  { "content-type": 'multipart/form-data; boundary="' },
  { "content-type": "application/json; charset=utf-16" },
  { "content-type": "application/x-tar" },
  { "last-event-id": "1" },
  { "last-event-id": "__proto__" },
  { "last-event-id": "-1" },
  { "idempotency-key": "k" },
  { "idempotency-key": "x".repeat(300) },
  { "x-stainless-retry-count": "__proto__" },
  { "x-stainless-retry-count": "1e999" },
  { accept: "text/event-stream" },
  { accept: "application/vnd.ag-ui.event+proto" },
  { accept: ";;;,,,q=x" },
  { range: "bytes=5-1" },
  { "anthropic-beta": "x".repeat(1_000) },
  { "accept-encoding": "*;q=0" },
];

const FORM = (name: string, file: string, text: string): string =>
  `--x\r\nContent-Disposition: form-data; name="${name}"; filename="${file}"\r\nContent-Type: text/plain\r\n\r\n${text}\r\n--x--\r\n`;
export const FORMS: readonly string[] = [
  FORM("file", "a.txt", "text"),
  FORM("file", "../../a", "text"),
  FORM("files[]", "a/SKILL.md", "---\nname: a\ndescription: b\n---\nc"),
  FORM("files[]", "__proto__/SKILL.md", `---\n${"a: {".repeat(5_000)}\n---\nc`),
  FORM("file", "\ud800", "text"),
  FORM("expires_in_seconds", "", "1e999"),
  "--x\r\n\r\n",
  "--x--",
  `--x\r\n${"a: b\r\n".repeat(50_000)}\r\n--x--`,
  "",
];
