/* SPDX-License-Identifier: MIT */
/* html.h - writes untrusted text, and files, into a page of HTML or SVG. */
#ifndef LOADER_CTL_HTML_H
#define LOADER_CTL_HTML_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Write text for an element or a quoted attribute: nothing in it is markup. Invalid UTF-8 and
 * control characters, except newlines and tabs, become U+FFFD. */
void html_put_text(FILE *page, const char *text);

/** Write the URI of a file that is inside the page: "data:TYPE;base64,...". */
void html_put_data(FILE *page, const char *type, const uint8_t *bytes, size_t len);

#endif
