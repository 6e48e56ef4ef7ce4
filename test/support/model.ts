import type { AgentId } from "./agents.ts";

/** How each real CLI is led to the scripted model. */
export const LED_TO_MODEL: Readonly<
  Record<AgentId, { model: string; env: (url: string) => Record<string, string> }>
> = {
  claude: {
    model: "claude-sonnet-4-5",
    env: (url) => ({ ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: "sk-ant-any-key-will-do" }),
  },
  codex: {
    model: "gpt-5.5",
    env: (url) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: "sk-any-key-will-do" }),
  },
  opencode: {
    model: "scripted",
    env: (url) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: "sk-any-key-will-do" }),
  },
  gemini: {
    model: "gemini-2.5-pro",
    env: (url) => ({ GOOGLE_GEMINI_BASE_URL: url, GEMINI_API_KEY: "any-key-will-do" }),
  },
  grok: {
    model: "scripted",
    env: (url) => ({ XAI_BASE_URL: `${url}/v1`, XAI_API_KEY: "xai-any-key-will-do" }),
  },
};
