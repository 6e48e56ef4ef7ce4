/** A variable, so that nobody looks for the package before it is needed. */
const PACKAGE = "@tanstack/ai-sandbox";

/** As TanStack's own error of that name, where its class cannot be found from here. */
export class UnsupportedCapabilityError extends Error {
  override readonly name = "UnsupportedCapabilityError";
  readonly provider: string;
  readonly capability: string;

  constructor(provider: string, capability: string, hint?: string) {
    super(
      `Sandbox provider "${provider}" does not support the "${capability}" capability.${hint ? ` ${hint}` : ""}`,
    );
    this.provider = provider;
    this.capability = capability;
  }
}

type ErrorClass = new (provider: string, capability: string, hint?: string) => Error;

/** What an application catches by its class is of that class. */
export async function toUnsupported(provider: string, capability: string, hint: string): Promise<Error> {
  const found = (await import(/* @vite-ignore */ PACKAGE).catch(() => ({}))) as {
    UnsupportedCapabilityError?: ErrorClass;
  };
  const { UnsupportedCapabilityError: Theirs = UnsupportedCapabilityError } = found;
  return new Theirs(provider, capability, hint);
}
