#!/usr/bin/env node
/**
 * Stands in for the Amp CLI, whose agent loop runs on Amp's server: prints the lines that Amp documents for
 * `--execute --stream-json --stream-json-input`, follows `amp.permissions` (allow, reject, delegate), keeps threads
 * in HOME and continues them, and follows a prompt's `#script`. The rest of its life is real: processes, files.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";

const args = process.argv.slice(2);
if (args[0] === "--version") {
  console.log("0.0.1790142911-stub");
  process.exit(0);
}
for (const flag of ["--execute", "--stream-json", "--stream-json-input"]) {
  if (args.includes(flag)) continue;
  console.error(`Error: ${flag} is missing`);
  process.exit(1);
}
if (!process.env.AMP_API_KEY) {
  console.log(
    "No API key found. Starting login flow...\nIf your browser does not open automatically, visit:\n",
  );
  console.log("http://127.0.0.1:9/auth/cli-login?authToken=abcdef123456\n");
  setInterval(() => {}, 1_000);
  await new Promise(() => {});
}

const settings = JSON.parse(readFileSync(join(process.env.HOME, ".config/amp/settings.json"), "utf8"));
const threads = join(process.env.HOME, ".local/share/amp/threads");
mkdirSync(threads, { recursive: true });
const continued = args[0] === "threads" && args[1] === "continue" ? args[2] : undefined;
if (continued !== undefined && !existsSync(join(threads, `${continued}.json`))) {
  console.error(`Error: Thread ${continued} not found`);
  process.exit(1);
}
const session_id = continued ?? `T-${randomUUID()}`;
const file = join(threads, `${session_id}.json`);
const history = continued === undefined ? [] : JSON.parse(readFileSync(file, "utf8"));
const mode = args.includes("--mode") ? args[args.indexOf("--mode") + 1] : "default";
const usage = {
  input_tokens: 110,
  cache_creation_input_tokens: 10,
  cache_read_input_tokens: 90,
  output_tokens: 5,
};

let calls = 0;
let running = false;
let isClosed = false;
let answer = "";
const queue = [];
const steered = [];

print({
  type: "system",
  subtype: "init",
  cwd: process.cwd(),
  tools: ["Bash"],
  mcp_servers: Object.keys(settings["amp.mcpServers"] ?? {}).map((name) => ({ name, status: "connected" })),
});

const input = createInterface({ input: process.stdin });
input.on("line", (line) => {
  const message = JSON.parse(line);
  if (message.type !== "user") throw new Error(`not a user message: ${line}`);
  if (message.steer === true && running) steered.push(message.message);
  else queue.push(message.message);
  next();
});
input.on("close", () => {
  isClosed = true;
  next();
});
process.on("SIGINT", () => process.exit(130));

async function next() {
  if (running) return;
  const message = queue.shift();
  if (message === undefined) {
    if (!isClosed) return;
    if (process.env.STUB_RESULT !== "each")
      print({
        type: "result",
        subtype: "success",
        is_error: false,
        num_turns: 1,
        duration_ms: 1,
        result: answer,
      });
    process.exit(0);
  }
  running = true;
  print({ type: "user", message, parent_tool_use_id: null });
  const text = message.content.map((block) => block.text ?? `[${block.type}]`).join("\n");
  history.push(text);
  writeFileSync(file, JSON.stringify(history));
  try {
    await perform(text);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    print({
      type: "result",
      subtype: error.subtype,
      is_error: true,
      duration_ms: 1,
      num_turns: 1,
      error: error.message,
    });
  }
  running = false;
  next();
}

class Failure extends Error {
  constructor(message, subtype = "error_during_execution") {
    super(message);
    this.subtype = subtype;
  }
}

async function perform(text) {
  const script = text.startsWith("#script") ? JSON.parse(text.slice(7)) : [{ say: `You said: ${text}` }];
  answer = "";
  for (const step of script) await take(step, null);
  for (let more = steered.shift(); more !== undefined; more = steered.shift()) {
    print({ type: "user", message: more, parent_tool_use_id: null });
    answer += ` Steered: ${more.content[0].text}`;
  }
  say([{ type: "text", text: answer || "Done." }], null, "end_turn");
  if (process.env.STUB_RESULT === "each") {
    print({
      type: "result",
      subtype: "success",
      is_error: false,
      num_turns: 1,
      duration_ms: 1,
      result: answer,
    });
  }
}

async function take(step, parent) {
  if (step.say !== undefined)
    answer += step.say.replace("$history", history.slice(0, -1).join("|")).replace("$mode", mode);
  else if (step.think !== undefined) say([{ type: "thinking", thinking: step.think }], parent);
  else if (step.shell !== undefined) await tool("Bash", { cmd: step.shell }, parent, () => shell(step.shell));
  else if (step.write !== undefined) await tool("create_file", step.write, parent, () => write(step.write));
  else if (step.edit !== undefined) await tool("edit_file", step.edit, parent, () => edit(step.edit));
  else if (step.todo !== undefined) await tool("todo_write", { todos: step.todo }, parent, () => "ok");
  else if (step.subagent !== undefined) await subagent(step.subagent);
  else if (step.fail !== undefined) throw new Failure(step.fail);
  else if (step.maxTurns) throw new Failure("", "error_max_turns");
  else if (step.raw !== undefined) console.log(step.raw);
  else if (step.sleep !== undefined) await new Promise((done) => setTimeout(done, step.sleep));
  else if (step.exit !== undefined) process.exit(step.exit);
}

async function subagent(steps) {
  const id = `toolu_${++calls}`;
  say([{ type: "tool_use", id, name: "Task", input: { prompt: "look" } }], null, "tool_use");
  for (const step of steps) await take(step, id);
  say([{ type: "text", text: "Nested." }], id, "end_turn");
  answer_(id, "Nested.", false, null);
}

async function tool(name, input, parent, run) {
  const id = `toolu_${++calls}`;
  say([{ type: "tool_use", id, name, input }], parent, "tool_use");
  const refused = permit(name, input);
  const verdict = await refused;
  if (verdict !== undefined) return answer_(id, `Tool call rejected: ${verdict}`, true, parent);
  try {
    answer_(id, await run(), false, parent);
  } catch (error) {
    answer_(id, String(error.message), true, parent);
  }
}

/** The first rule that matches decides; undefined lets the tool run. */
async function permit(name, input) {
  if (settings["amp.dangerouslyAllowAll"]) return undefined;
  const rule = (settings["amp.permissions"] ?? []).find((rule) => rule.tool === "*" || rule.tool === name);
  if (rule?.action === "allow") return undefined;
  if (rule?.action !== "delegate") return "not permitted";
  return new Promise((done) => {
    const env = { ...process.env, AGENT: "amp", AGENT_TOOL_NAME: name };
    const asked = spawn(rule.to, [], { stdio: ["pipe", "ignore", "pipe"], env });
    let words = "";
    asked.stderr.on("data", (bytes) => (words += bytes));
    asked.on("error", (error) => done(error.message));
    asked.on("close", (code) => done(code === 0 ? undefined : words.trim() || `exit ${code}`));
    asked.stdin.end(JSON.stringify(input));
  });
}

function shell(cmd) {
  return new Promise((done) => {
    const child = spawn("/bin/sh", ["-c", cmd], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
    child.on("close", (exitCode) => done(JSON.stringify({ output, exitCode })));
  });
}

function write({ path, content }) {
  const target = resolve(path);
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, content);
  return `Successfully created file ${path}`;
}

function edit({ path, old_str, new_str }) {
  const target = resolve(path);
  const before = readFileSync(target, "utf8");
  if (!before.includes(old_str)) throw new Error(`old_str not found in ${path}`);
  writeFileSync(`${target}.new`, before.replace(old_str, new_str));
  const { stdout } = spawnSync("diff", ["-u", target, `${target}.new`], { encoding: "utf8" });
  writeFileSync(target, readFileSync(`${target}.new`));
  spawnSync("rm", [`${target}.new`]);
  return JSON.stringify({ diff: `\`\`\`diff\n${stdout}\n\`\`\`` });
}

function say(content, parent, stop_reason = null) {
  const message = {
    type: "message",
    role: "assistant",
    content,
    stop_reason,
    usage: { ...usage, max_tokens: 968000, service_tier: "standard" },
  };
  print({ type: "assistant", message, parent_tool_use_id: parent });
}

function answer_(id, content, is_error, parent) {
  print({
    type: "user",
    message: { role: "user", content: [{ type: "tool_result", tool_use_id: id, content, is_error }] },
    parent_tool_use_id: parent,
  });
}

function print(line) {
  console.log(JSON.stringify({ ...line, session_id }));
}
