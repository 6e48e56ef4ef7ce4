import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";

/**
 * The agent of the pictures: it speaks ACP, runs real commands and writes real files. There is no model behind it, so
 * a table says what it does for a prompt.
 */
const WORK = {
  "Fix the failing checkout test": fixCheckout,
  "Good. Deploy it.": deploy,
  "Describe every route of the API": describeRoutes,
  "Upgrade the packages": upgrade,
  "Check all forty services": checkServices,
};
const TESTS = {
  false: "\u001B[32m✓\u001B[0m cart adds items\n\u001B[31m✗ cart sums the quantity\u001B[0m",
  true: "\u001B[32m✓\u001B[0m cart adds items\n\u001B[32m✓\u001B[0m cart sums the quantity",
};

let [cwd, calls, asked] = [process.cwd(), 0, 0];
const answers = new Map();
const post = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const update = (fields) =>
  post({ method: "session/update", params: { sessionId: "pictures", update: fields } });

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params, result } = JSON.parse(line);
  if (method === undefined) return answers.get(id)?.(result);
  if (method === "initialize") post({ id, result: { protocolVersion: 1, agentCapabilities: {} } });
  else if (method === "session/new") {
    cwd = params.cwd;
    post({ id, result: { sessionId: "pictures" } });
  } else if (method === "session/prompt") {
    const prompt = params.prompt.map(({ text }) => text ?? "").join("\n");
    const known = Object.keys(WORK).find((words) => prompt.includes(words));
    try {
      await WORK[known]?.();
      const usage = { inputTokens: 8_200, outputTokens: 640, cachedReadTokens: 5_100 };
      post({ id, result: { stopReason: "end_turn", usage } });
    } catch (error) {
      post({ id, error: { code: -32603, message: error.message } });
    }
  } else if (id !== undefined) post({ id, result: {} });
});

async function say(text, kind = "message") {
  for (const word of text.match(/\s*\S+/g)) {
    update({ sessionUpdate: `agent_${kind}_chunk`, content: { type: "text", text: word } });
    await wait(8);
  }
}

function plan(...states) {
  const steps = ["Find the failing test", "Fix the total", "Run the tests again"];
  const entries = steps.map((content, at) => ({ content, status: states[at], priority: "medium" }));
  update({ sessionUpdate: "plan", entries });
}

async function shell(command) {
  const call = { toolCallId: `call_${++calls}`, title: "bash", kind: "execute" };
  update({ sessionUpdate: "tool_call", ...call, status: "in_progress", rawInput: { command } });
  const child = spawn("sh", ["-c", command], { cwd, stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  const [exit] = await once(child, "close");
  const content = [{ type: "content", content: { type: "text", text: output } }];
  const status = exit === 0 ? "completed" : "failed";
  update({ sessionUpdate: "tool_call_update", toolCallId: call.toolCallId, status, content });
}

function write(path, newText) {
  const file = join(cwd, path);
  let oldText = null;
  try {
    oldText = readFileSync(file, "utf8");
  } catch {
    mkdirSync(dirname(file), { recursive: true });
  }
  writeFileSync(file, newText);
  const call = { toolCallId: `call_${++calls}`, title: "edit", kind: "edit", rawInput: { path } };
  update({ sessionUpdate: "tool_call", ...call, status: "in_progress" });
  const content = [{ type: "diff", path, oldText, newText }];
  update({ sessionUpdate: "tool_call_update", toolCallId: call.toolCallId, status: "completed", content });
}

const cart = (sum) => `export interface Item {
  price: number;
  quantity: number;
}

export function total(item: Item): number {
  return ${sum};
}
`;

async function fixCheckout() {
  plan("in_progress", "pending", "pending");
  await say("The total probably ignores the quantity of an item.", "thought");
  write("src/cart.ts", cart("item.price"));
  writeFileSync(
    join(cwd, "test.sh"),
    `grep -q quantity\\; src/cart.ts && printf '${TESTS.true}\\n' && exit 0\nprintf '${TESTS.false}\\n'; exit 1\n`,
  );
  await shell("sleep 0.3; sh test.sh");
  plan("completed", "in_progress", "pending");
  write("src/cart.ts", cart("item.price * item.quantity"));
  plan("completed", "completed", "in_progress");
  await shell("sleep 0.4; sh test.sh");
  plan("completed", "completed", "completed");
  await say(
    "The total ignored the **quantity**. `src/cart.ts` multiplies now, and both tests pass.\n\n| test | before | now |\n|---|---|---|\n| adds items | ok | ok |\n| sums the quantity | failed | ok |",
  );
}

async function deploy() {
  await say("The fix is ready to go out.");
  const toolCall = { toolCallId: `call_${++calls}`, title: "bash", kind: "execute" };
  const options = [
    { optionId: "once", name: "Allow", kind: "allow_once" },
    { optionId: "always", name: "Always", kind: "allow_always" },
    { optionId: "no", name: "Reject", kind: "reject_once" },
  ];
  const id = `ask_${++asked}`;
  const call = { ...toolCall, status: "pending", rawInput: { command: "make deploy" } };
  update({ sessionUpdate: "tool_call", ...call });
  post({
    id,
    method: "session/request_permission",
    params: { sessionId: "pictures", toolCall: call, options },
  });
  await new Promise((resolve) => answers.set(id, resolve));
}

async function describeRoutes() {
  await shell("sleep 0.2; ls");
  await say("I have read the routes and wrote a page for each.");
}

async function upgrade() {
  await shell("sleep 0.1; echo 'checking 214 packages'");
  throw new Error("The registry does not answer.");
}

async function checkServices() {
  for (let step = 1; step <= 40; step++) {
    await say(`Service ${step} of 40 answers.`);
    await shell(`sleep 0.2; echo 'service ${step}: ok'`);
  }
}
