import type { AgentPlanEntry } from "../protocol.ts";
import type { Step } from "./step.ts";

const LONGEST_QUOTE = 10_000;
const FILE = "hello-from-sluice.md";

/** What the agent does with a prompt that is no script: a little of everything that an agent does. */
export function toPerformance(prompt: string): Step[] {
  const quote = prompt.length > LONGEST_QUOTE ? `${prompt.slice(0, LONGEST_QUOTE)}…` : prompt;
  const quoted = quote
    .split("\n")
    .map((line) => `> ${line}`)
    .join("\n");
  return [
    plan("in_progress", "pending", "pending"),
    { do: "think", text: "There is no model behind me, so I will look around, leave a file, and answer." },
    { do: "shell", command: "uname -s && date +%Y" },
    plan("completed", "in_progress", "pending"),
    { do: "write", path: FILE, content: `# Hello from sluice\n\nYou wrote:\n\n${quoted}\n` },
    plan("completed", "completed", "in_progress"),
    {
      do: "say",
      text: `You said: “${quote}” I ran a shell command and wrote ${FILE}. Start a prompt with #script to choose what I do.`,
    },
    plan("completed", "completed", "completed"),
  ];
}

type Status = AgentPlanEntry["status"];

function plan(look: Status, write: Status, answer: Status): Step {
  return {
    do: "plan",
    entries: [
      { content: "Look around", status: look, priority: "medium" },
      { content: `Write ${FILE}`, status: write, priority: "medium" },
      { content: "Answer", status: answer, priority: "high" },
    ],
  };
}
