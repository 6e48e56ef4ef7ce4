export const SECTIONS: readonly { readonly title: string; readonly pages: readonly string[] }[];
export function listPages(): string[];
export function toAddress(page: string): string;
export function toLink(from: string, to: string): string;
